// Trees for an all_reduce: every part of the vector is reduced up its tree and spread down the same one, so an edge is
// used once each way, and trees that share the edges evenly (bound/spanning_trees.hpp) meet the partition bound, which
// a reduce_scatter and an all_gather by themselves reach on symmetric machines only. Switches are replaced by links
// between ranks first (rank_graph.hpp). Pure functions.
#pragma once

#include "base/clock.hpp"
#include "synthesis/schedule.hpp"
#include "topology/routes.hpp"

namespace tutti {

struct TwoWayOptions {
  int most_trees = 32;
  double enough = 0;  // seconds per byte: a packing as good as that is not improved further
};

/// Broadcasts from one root, with the same trees.
struct TwoWayTrees {
  Schedule down;
  Schedule up;      // of the reversed topology, to be run backwards
  double rate = 0;  // seconds per byte of the vector that the busiest link takes, both ways counted
  int height = 0;
};

/// Gives up with timed_out at the deadline, unless it has some by then.
Result<TwoWayTrees> pack_two_way_trees(Routes& routes, const TwoWayOptions& options, Deadline deadline);

}  // namespace tutti
