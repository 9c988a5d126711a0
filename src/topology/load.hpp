// A topology from wherever it is described: a file in any of the formats, or the spec of a builtin.
#pragma once

#include <string>
#include <string_view>

#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Tells the format by the text: native JSON (format_json.hpp), TACCL's topology file as one node (format_taccl.hpp),
/// NCCL's XML or the matrix of `nvidia-smi topo -m` (format_nccl.hpp).
Result<Topology> parse_topology(std::string_view text);

/// `where`: the path of a file, or where there is none, the spec of a builtin (builtin.hpp). Errors about a file begin
/// with its path.
Result<Topology> load_topology(const std::string& where);

}  // namespace tutti
