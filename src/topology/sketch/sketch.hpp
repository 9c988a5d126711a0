// What a person knows about a machine and wants of an algorithm: TACCL's sketch, as a value.
//
// A sketch restricts (which GPUs talk to other nodes), shapes (which GPUs sit around a switch), and wishes (symmetry,
// few or many connections, the order of chunks). GPUs are counted within a node (`local`), from 0. With a profile of
// one node (format_taccl.hpp) it makes a Topology, which holds what is restricted, and a SketchPlan, which holds the
// rest, in terms of ranks. Plain values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/symmetry.hpp"
#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// How many of the pairs of GPUs around a switch an algorithm should use.
enum class ConnectionPolicy { any, fewest, most };
/// What to even out among the links of a node, beside time.
enum class LinkBalance { none, least_of_the_busiest, most_of_the_idlest };

struct InternodeSketch {
  enum class Pattern { listed, fully_connected, direct_map };
  Pattern pattern = Pattern::listed;
  std::map<int, std::vector<int>> connections;     // listed: local sender -> local receivers, in every other node
  std::map<int, std::vector<int>> gpus_of_sender;  // chunks of these GPUs leave the node through this sender only
  bool own_chunks_first = false;                   // a sender's own chunks go before those it passes on

  bool operator==(const InternodeSketch&) const = default;
};

/// Rank r is like (r mod group + offset) mod group + (r div group) * group.
struct SymmetryOffset {
  int offset = 0;
  int group = 1;

  bool operator==(const SymmetryOffset&) const = default;
};

struct Sketch {
  int nodes = 1;
  LinkBalance balance = LinkBalance::none;
  std::vector<std::vector<int>> switches;  // local GPUs; a list that stands k times is k planes
  ConnectionPolicy policy = ConnectionPolicy::any;
  std::optional<InternodeSketch> internode;
  std::vector<SymmetryOffset> symmetry_offsets;
  int chunks = 1;  // per input buffer

  bool operator==(const Sketch&) const = default;
};

/// What of a sketch does not show in the topology.
struct SketchPlan {
  ConnectionPolicy policy = ConnectionPolicy::any;
  LinkBalance balance = LinkBalance::none;
  std::vector<int> sender_of;  // [rank] = the rank its chunks leave the node through; -1: any
  bool own_chunks_first = false;
  bool straight_between_nodes = true;   // a chunk goes from its home node to another directly, never by a third
  std::vector<Permutation> symmetries;  // of vertices, verified; algorithms are to be the same under them
  int chunks = 1;
};

/// TACCL's sketch file, every option it has:
///   {"nnodes": 2,
///    "intranode_sketch": {"strategy": "switch" | "none" | "minmax" | "maxmin", "switches": [[0, 1]],
///                         "switch_hyperedge_strategy": ["uc-min" | "uc-max" | "none"]},
///    "internode_sketch": {"strategy": "relay", "internode_conn": {"1": [0]} | "fully-connected" | "direct-map",
///                         "gpus_to_sender_rev_map": {"1": [0, 1]}, "enforce_ordering": true},
///    "symmetry_offsets": [[2, 16]], "hyperparameters": {"input_chunkup": 2}}
/// Also what its parser trips over: sketches of one node without internode_sketch, minmax and maxmin, and a policy for
/// each switch as long as they agree. Keys it does not know are refused, by name. Errors name the place and the value.
Result<Sketch> sketch_from_taccl(std::string_view text);

}  // namespace tutti
