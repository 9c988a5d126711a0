// A topology from wherever it is described: a file in any of the formats, or the spec of a builtin.
#pragma once

#include <string>
#include <string_view>

#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Tells the format by the text: native JSON (format_json.hpp), TACCL's topology file as one node (format_taccl.hpp),
/// NCCL's XML or the matrix of `nvidia-smi topo -m` (format_nccl.hpp). `nodes`: copies of the host, for formats that
/// describe one host; the others refuse anything but 1.
Result<Topology> parse_topology(std::string_view text, int nodes = 1);

/// `where`: the path of a file, or where there is none, the spec of a builtin (builtin.hpp), to which `nodes` other
/// than 0 is added as a parameter. Errors about a file begin with its path.
Result<Topology> load_topology(const std::string& where, int nodes = 0);

}  // namespace tutti
