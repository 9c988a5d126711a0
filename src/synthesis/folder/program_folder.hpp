// The folder `tutti synth` leaves behind: topology.json; for every collective its programs (COLLECTIVE.N.json, and .xml
// where MSCCL's format can say it), certificates (bounds/COLLECTIVE.N.json); report.json, report.html, and
// nccl_tuner.csv where an algorithm that NCCL has is as good as any.
#pragma once

#include <string>
#include <vector>

#include "synthesis/report.hpp"
#include "tutti/error.hpp"

namespace tutti::cli {

struct SynthOutputs {
  bool xml_always = false;     // else up to 256 ranks
  bool msccl_dialect = false;  // of microsoft/msccl, else of the executor and RCCL
  bool mscclpp = false;        // plans of MSCCL++ as well (COLLECTIVE.N.mscclpp)
};

/// Programs are checked before they are written; one that fails is an error, since generators must not err.
Status write_synthesis(const std::string& folder, const Topology& topology,
                       std::vector<SynthesizedCollective>& synthesized, const SynthOutputs& outputs);

}  // namespace tutti::cli
