// The folder `tutti synth` leaves behind: topology.json; for every collective its programs (COLLECTIVE.N.json, and .xml
// if MSCCL's format can hold it) and certificates (bounds/COLLECTIVE.N.json); report.json, report.html, and
// nccl_tuner.csv if an algorithm that NCCL has is as good as any. Writes files and prints nothing; one thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "synthesis/report.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct ProgramFolderOptions {
  bool xml_always = false;     // else up to 256 ranks
  bool msccl_dialect = false;  // of microsoft/msccl, else of the executor and RCCL
  bool mscclpp = false;        // plans of MSCCL++ as well (COLLECTIVE.N.mscclpp)
  /// Called for every file that is left out because its format cannot hold the program.
  std::function<void(std::string_view file, std::string_view reason)> on_left_out = {};
};

/// Writes all of it into `folder`, which must be there, and notes in `synthesized` the files of its programs. Programs
/// are checked before they are written; one that fails is an error, since generators must not err.
Status write_program_folder(const std::string& folder, const Topology& topology,
                            std::vector<SynthesizedCollective>& synthesized, const ProgramFolderOptions& options);

}  // namespace tutti
