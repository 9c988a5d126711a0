// TACCL's second stage: the order in which every link and every port carries its chunks, by list scheduling.
//
// Again and again the best of the transfers whose chunk is there is put where its link and ports are free. What is best
// depends on the machine (TACCL's heuristics 10, 14, 5 and 12):
//   switches          the longest way still to go, then what can start first
//   several nodes     what can start first, then chunks that stay in their own node, then the longest way to go
//   one node          placed from the end backwards: the shortest way to go is placed first, hence goes last
//   reductions        the largest sum of ways to go; what one rank sends of one chunk goes one after the other, because
//                     turned round these are sums that are not made at the same time
// Ties go to the smaller distance of rank numbers, then to smaller numbers. Except with several nodes and no switches,
// the times of the stage before go first and this order decides among equals, as TACCL has it. Pure functions.
#pragma once

#include <vector>

#include "synthesis/taccl/taccl_trees.hpp"

namespace tutti {

/// One chunk over one link.
struct TacclSend {
  int chunk = 0;
  int link = 0;
  int after = -1;  // the send that brings the chunk to the link's sender; -1: it starts there
};

struct TacclOrders {
  std::vector<TacclSend> sends;  // each after the one it waits for
  /// Sends that go one after the other: of each link, then of each port, then, for reductions, of each rank and chunk.
  std::vector<std::vector<int>> lanes;
};

TacclOrders order_sends(const TacclProblem& problem, const TacclTrees& trees);

/// The same sends, for the reduction that they are backwards. `begins` are the times of the stages before, [send].
TacclOrders order_reductions(const TacclProblem& problem, const TacclOrders& orders, const std::vector<double>& begins);

}  // namespace tutti
