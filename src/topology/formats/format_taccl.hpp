// TACCL's topology files: the profile of one node, unchanged, and with a sketch a whole machine.
//
// A file gives times for one chunk: {"name", "gpus_per_node", "nics_per_node", "alpha", "node_betas_list",
// "node_invbws_list", "remote_alpha", "remote_beta", "remote_invbw"}, or for any other node "links", "betas" (and
// "invbws"), matrices [to][from] of parallel links and of times. It says neither how large the chunk is nor in which
// unit the times are; without more they count as microseconds for 1 MiB, and only ratios mean anything. Two keys of our
// own, which TACCL ignores, say it: "chunk_bytes" and "time_unit" ("100 ns").
//
// Which links a node has follows from its figures: two betas are NDv2's cube mesh (double and single NVLinks, 8 GPUs),
// one is a link between all GPUs (DGX2). invbws are alpha + beta, rounded, and not used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/sketch/sketch.hpp"
#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct NodeProfile {
  std::string name;
  int gpus = 0;
  int nics = 1;
  Rational alpha;                                // seconds
  std::vector<std::vector<Rational>> bandwidth;  // [from][to] bytes per second, of all parallel links; 0: none
  Rational remote_alpha;                         // seconds
  Rational remote_bandwidth;                     // bytes per second, of one NIC; 0: not given
  std::int64_t chunk_bytes = 1 << 20;            // what the file's times are for
};

Result<NodeProfile> profile_from_taccl(std::string_view text);

/// One node, no NICs.
Result<Topology> topology_of(const NodeProfile& profile);

struct SketchedTopology {
  Topology topology;
  SketchPlan plan;
};

/// The machine a sketch makes of a node:
///   switches      replace the links between their GPUs by a port each, as fast as one of those links; k planes are k
///                 times as fast;
///   connections   become links between the GPUs of different nodes. All together have the bandwidth of the node's
///                 NICs, in equal shares. From three nodes on, a sender's connections share a port, as do a receiver's;
///   symmetries    are verified; one that is none is an error.
/// The error names the entry of the sketch and why it does not fit, and the line in the text the sketch was read from,
/// if given.
Result<SketchedTopology> apply_sketch(const NodeProfile& profile, const Sketch& sketch, std::string_view text = {});

}  // namespace tutti
