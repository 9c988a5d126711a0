// The order in which links carry the hops of trees, if each is sent as soon as it can be: list scheduling, by time.
// Pure functions.
#pragma once

#include <vector>

#include "topology/topology.hpp"

namespace tutti {

/// A tree's way from one rank to the next.
struct TreeHop {
  int after = -1;          // the hop that brings it to the sender, which stands before this one; -1: it starts there
  double amount = 1;       // of equal chunks
  std::vector<int> links;  // physical, in order
};

/// Indices of hops by the time they begin, when every link carries one hop at a time, and of those that could begin at
/// the same moment the one with the longest way behind it goes first.
std::vector<int> order_by_time(const Topology& topology, const std::vector<TreeHop>& hops);

}  // namespace tutti
