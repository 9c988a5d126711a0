// What a synthesis found, for programs and for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "synthesis/synthesize.hpp"

namespace tutti {

struct SynthesizedCollective {
  Collective collective = Collective::all_gather;
  int root = 0;
  Synthesis found;
  std::vector<std::string> files;  // [program] where it was written; empty: not
};

/// {"format": "tutti synthesis 1", "topology": "ndv2", "ranks": 16, "rows": [{"collective": "all_gather", "ranks": 16,
///  "bytes": 1024, "generator": "greedy", "simulated_us": 4.1, "bound_us": 3.3, "gap": 0.24, "seconds": 0.4,
///  "program": "all_gather.0.json"}, ...]}
std::string report_json(const Topology& topology, const std::vector<SynthesizedCollective>& synthesized);

/// One page without anything from elsewhere: the topology, time by size against the bound and the library's algorithms,
/// the schedule of the largest size as a timeline, the loads of links.
std::string report_html(const Topology& topology, const std::vector<SynthesizedCollective>& synthesized);

}  // namespace tutti
