// TACCL's own examples, as far as they go together: every topology file with every sketch for as many GPUs, every
// collective it can solve. What benchmarks and tests hold the synthesizer against.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "topology/formats/format_taccl.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct ShippedCase {
  std::string topology;  // file names, without their endings
  std::string sketch;
  NodeProfile profile;
  Sketch restrictions;
  Collective collective = Collective::all_gather;

  /// "topo-ndv2-1MB sk1-ndv2-n2 all_gather"
  std::string name() const;
};

/// Reads `topologies/taccl` and `sketches` of a folder of examples. A sketch belongs to a topology where the machine's
/// name, between the first two dashes, is the same. In the order of the files' names.
Result<std::vector<ShippedCase>> shipped_cases(const std::filesystem::path& examples);

}  // namespace tutti
