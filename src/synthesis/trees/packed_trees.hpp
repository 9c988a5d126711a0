// Throughput-optimal schedules of all_gather and broadcast: trees packed into the capacities of the links, so that
// every rank's block (or the root's vector) streams down several at once and no link carries more than the bound allows
// (Edmonds; ForestColl). Trees are kept low, for small sizes and short pipelines.
//
// Where translations move ranks to one another, the trees of one rank of each orbit serve all (symmetric_trees.hpp);
// broadcasts on machines of several nodes go through trees of nodes (node_broadcast.hpp). Elsewhere, and where these
// lose more than a percent, trees are packed by Edmonds' theorem (tree_growth.hpp), after switches were replaced by
// links between ranks (rank_graph.hpp): wirings are guessed, and judged by the flows they leave.
// Pure functions.
#pragma once

#include "synthesis/schedule.hpp"
#include "topology/routes.hpp"

namespace tutti {

struct PackingOptions {
  int root = 0;         // broadcast
  int most_trees = 16;  // per root: more come nearer to the bound, and make more chunks
};

struct PackedTrees {
  Schedule schedule;
  double rate = 0;  // seconds per byte of the whole vector that the busiest link takes: to hold against the bound
  int height = 0;   // of the highest tree
};

/// Gives up with timed_out after `seconds_limit`.
Result<PackedTrees> pack_trees(Routes& routes, Collective collective, const PackingOptions& options,
                               double seconds_limit);

}  // namespace tutti
