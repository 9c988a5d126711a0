#include "topology/formats/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "documents/json_place.hpp"
#include "documents/text_file.hpp"
#include "topology/builtin/builtin.hpp"
#include "topology/formats/format_json.hpp"
#include "topology/formats/format_nccl.hpp"
#include "topology/formats/format_taccl.hpp"

namespace tutti {
namespace {

Result<Topology> parse_taccl(std::string_view text) {
  const auto profile = profile_from_taccl(text);
  if (!profile) return tl::unexpected(profile.error());
  auto topology = topology_of(*profile);
  if (!topology)
    return fail(topology.error().code, fmt::format("{}: {}", place_in(text, "links"), topology.error().message));
  return topology;
}

}  // namespace

Result<Topology> parse_topology(std::string_view text, int nodes) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string_view::npos && text[start] == '<') return topology_from_nccl_xml(text, nodes);
  if (start == std::string_view::npos || text[start] != '{') return topology_from_smi_matrix(text, nodes);
  if (nodes != 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} nodes: this file describes a whole topology, not one host to copy; TACCL's files take "
                            "the number of nodes from a sketch",
                            nodes));
  return text.find("\"gpus_per_node\"") != std::string_view::npos ? parse_taccl(text) : topology_from_json(text);
}

Result<Topology> load_topology(const std::string& where, int nodes) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(where, none)) {
    if (names_builtin(where)) return make_builtin(nodes == 0 ? where : fmt::format("{} --nodes {}", where, nodes));
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is neither a file nor a built-in topology; `tutti topo list` shows those", where));
  }
  const auto text = read_text(where);
  if (!text) return tl::unexpected(text.error());
  Result<Topology> topology = parse_topology(*text, std::max(nodes, 1));
  if (!topology) return tl::unexpected(about_file(where, topology.error()));
  return topology;
}

}  // namespace tutti
