#include "topology/sketch/sketch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "documents/json_value.hpp"

namespace tutti {
namespace {

constexpr int kMostNodes = 1 << 16;
constexpr int kMostGpusPerNode = 1 << 12;
constexpr int kMostChunks = 1 << 16;
constexpr int kDepth = 8;

int local_gpu(const JsonValue& value) { return static_cast<int>(value.integer(0, kMostGpusPerNode - 1)); }

std::vector<int> gpu_list(const JsonValue& value) {
  std::vector<int> gpus;
  for (const JsonValue& element : value.elements()) {
    const int gpu = local_gpu(element);
    if (std::find(gpus.begin(), gpus.end(), gpu) != gpus.end()) element.fail(fmt::format("GPU {} stands twice", gpu));
    gpus.push_back(gpu);
  }
  if (gpus.empty()) value.fail("is empty; expected local numbers of GPUs");
  return gpus;
}

/// {"1": [0, 2]}
std::map<int, std::vector<int>> gpu_lists(const JsonValue& value) {
  std::map<int, std::vector<int>> lists;
  for (const auto& [key, member] : value.members()) {
    int gpu = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), gpu);
    if (error != std::errc() || end != key.data() + key.size() || gpu < 0 || gpu >= kMostGpusPerNode)
      member.fail(fmt::format("'{}' is not the local number of a GPU", key));
    lists[gpu] = gpu_list(member);
  }
  if (lists.empty()) value.fail("is empty; expected e.g. {\"1\": [0]}");
  return lists;
}

std::vector<std::vector<int>> read_switches(const JsonValue& value) {
  std::vector<std::vector<int>> switches;
  for (const JsonValue& element : value.elements()) {
    std::vector<int> gpus = gpu_list(element);
    std::sort(gpus.begin(), gpus.end());
    for (const auto& other : switches) {
      std::vector<int> common;
      std::set_intersection(gpus.begin(), gpus.end(), other.begin(), other.end(), std::back_inserter(common));
      if (!common.empty() && other != gpus)
        element.fail(
            fmt::format("GPU {} is around another switch as well, with other GPUs; two lists must be equal "
                        "(planes) or have nothing in common",
                        common.front()));
    }
    switches.push_back(std::move(gpus));
  }
  if (switches.empty()) value.fail("is empty; a strategy of \"switch\" needs at least one list of GPUs");
  return switches;
}

ConnectionPolicy policy_of(const std::string& name) {
  if (name == "uc-min") return ConnectionPolicy::fewest;
  if (name == "uc-max") return ConnectionPolicy::most;
  return ConnectionPolicy::any;
}

ConnectionPolicy read_policy(const JsonValue& value, std::size_t switches) {
  const auto elements = value.elements();
  if (elements.size() != switches) value.fail(fmt::format("has {} entries for {} switches", elements.size(), switches));
  for (const JsonValue& element : elements)
    if (policy_of(element.text()) != policy_of(elements.front().text()))
      element.fail(fmt::format("{} differs from the first, {}; one policy holds for all switches", element.shown(),
                               elements.front().shown()));
  return policy_of(elements.front().text());
}

void read_intranode(const JsonValue& value, Sketch& sketch) {
  value.expect_keys({"strategy", "switches", "switch_hyperedge_strategy"});
  const JsonValue strategy = value.at("strategy");
  if (strategy.text() == "minmax") {
    sketch.balance = LinkBalance::least_of_the_busiest;
  } else if (strategy.text() == "maxmin") {
    sketch.balance = LinkBalance::most_of_the_idlest;
  } else if (strategy.text() == "switch") {
    sketch.switches = read_switches(value.at("switches"));
    if (value.has("switch_hyperedge_strategy"))
      sketch.policy = read_policy(value.at("switch_hyperedge_strategy"), sketch.switches.size());
  } else if (strategy.text() != "none") {
    strategy.fail(fmt::format("{} is no strategy; expected switch, minmax, maxmin or none", strategy.shown()));
  }
}

/// Every GPU leaves by one sender, and that one has a connection.
void read_senders(const JsonValue& value, InternodeSketch& sketch) {
  sketch.gpus_of_sender = gpu_lists(value);
  std::map<int, int> sender_of;
  for (const auto& [sender, gpus] : sketch.gpus_of_sender) {
    if (sketch.pattern == InternodeSketch::Pattern::listed && sketch.connections.count(sender) == 0)
      value.fail(fmt::format("GPU {} is a sender here, but internode_conn gives it no receiver", sender));
    for (const int gpu : gpus)
      if (const auto [other, fresh] = sender_of.emplace(gpu, sender); !fresh)
        value.fail(fmt::format("GPU {} is served by senders {} and {}", gpu, other->second, sender));
  }
}

InternodeSketch read_internode(const JsonValue& value) {
  value.expect_keys({"strategy", "internode_conn", "gpus_to_sender_rev_map", "enforce_ordering"});
  if (const JsonValue strategy = value.at("strategy"); strategy.text() != "relay")
    strategy.fail(fmt::format("{} is no strategy; expected relay", strategy.shown()));
  InternodeSketch sketch;
  const JsonValue connections = value.at("internode_conn");
  if (!connections.is_text()) {
    sketch.connections = gpu_lists(connections);
  } else if (connections.text() == "fully-connected") {
    sketch.pattern = InternodeSketch::Pattern::fully_connected;
  } else if (connections.text() == "direct-map") {
    sketch.pattern = InternodeSketch::Pattern::direct_map;
  } else {
    connections.fail(
        fmt::format("{} is no pattern; expected fully-connected, direct-map or an object such as "
                    "{{\"1\": [0]}}",
                    connections.shown()));
  }
  if (value.has("gpus_to_sender_rev_map")) read_senders(value.at("gpus_to_sender_rev_map"), sketch);
  if (value.has("enforce_ordering")) sketch.own_chunks_first = value.at("enforce_ordering").flag();
  return sketch;
}

SymmetryOffset read_offset(const JsonValue& value) {
  const auto pair = value.elements();
  if (pair.size() != 2) value.fail(fmt::format("{} is no pair of offset and group size", value.shown()));
  const int group = static_cast<int>(pair[1].integer(1, kMostNodes * 8));
  return {static_cast<int>(pair[0].integer(0, group)), group};
}

Sketch read_sketch(const JsonValue& document) {
  document.expect_keys(
      {"nnodes", "intranode_sketch", "internode_sketch", "symmetry_offsets", "hyperparameters", "name"});
  Sketch sketch;
  sketch.nodes = static_cast<int>(document.at("nnodes").integer(1, kMostNodes));
  read_intranode(document.at("intranode_sketch"), sketch);
  if (document.has("internode_sketch") && sketch.nodes > 1)
    sketch.internode = read_internode(document.at("internode_sketch"));
  if (sketch.nodes > 1 && !sketch.internode)
    document.at("nnodes").fail(fmt::format("{} nodes, but no internode_sketch says how they are joined", sketch.nodes));
  if (document.has("symmetry_offsets"))
    for (const JsonValue& offset : document.at("symmetry_offsets").elements())
      sketch.symmetry_offsets.push_back(read_offset(offset));
  if (document.has("hyperparameters")) {
    const JsonValue parameters = document.at("hyperparameters");
    parameters.expect_keys({"input_chunkup"});
    if (parameters.has("input_chunkup"))
      sketch.chunks = static_cast<int>(parameters.at("input_chunkup").integer(1, kMostChunks));
  }
  return sketch;
}

}  // namespace

Result<Sketch> sketch_from_taccl(std::string_view text) {
  try {
    const JsonDocument document(text, kDepth);
    return read_sketch(JsonValue(document));
  } catch (const InputError& error) {
    return fail(ErrorCode::invalid_argument, error.what());
  }
}

}  // namespace tutti
