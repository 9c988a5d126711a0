// Throughput-optimal schedules of all_gather and broadcast: trees packed into the capacities of the links, so that
// every rank's block (or the root's vector) streams down several at once and no link carries more than the bound allows
// (Edmonds; ForestColl). Trees are kept low, for small sizes and short pipelines.
//
// Switches are replaced first: by links between ranks, guessed (offsets around a switch, rails) and certified by flows;
// the guess that loses least against the bound of the whole is taken.
// Where a group of symmetries moves every rank to every other, one rank's trees serve all (symmetric_trees.hpp).
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
