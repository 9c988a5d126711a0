// When TACCL's sends begin and end, with routes, orders and joins given: the longest ways through what waits for what.
//
// Joined sends are consecutive on their link, begin when all of their chunks are there, cost alpha + beta * their
// number and arrive together. Pure functions.
#pragma once

#include <vector>

#include "synthesis/taccl/taccl_ordering.hpp"

namespace tutti {

inline constexpr int kMostTogether = 6;  // sends; TACCL's max_contig

struct TacclTimes {
  double seconds = 0;                // until all is done; infinite where sends would wait for one another
  std::vector<double> begins, ends;  // [send] the earliest there are
  std::vector<bool> joins;           // [send] goes together with the one before it on its link
  bool optimal = false;              // proven, for these routes and orders
};

TacclTimes times_of(const TacclProblem& problem, const TacclOrders& orders, std::vector<bool> joins);

/// [send] whether it may go together with the one before on its link: between nodes, where no other peer's chunk comes
/// in between at a port, and for a reduction with chunks of the same block only.
std::vector<bool> joinable_sends(const TacclProblem& problem, const TacclOrders& orders, bool reduction);

/// What no joins can beat.
double least_time(const TacclProblem& problem, const TacclOrders& orders, const std::vector<bool>& joinable);

/// Sends that go together are one group; which groups wait for which, as a graph.
struct Groups {
  std::vector<std::vector<int>> members;  // [group] sends, in order
  std::vector<int> group_of;              // [send]
  std::vector<double> duration;           // [group]
  std::vector<std::vector<int>> next;     // [group] groups that wait for it
  std::vector<int> order;                 // groups, each after those it waits for; not all where they wait in a circle

  Groups(const TacclProblem& problem, const TacclOrders& orders, const std::vector<bool>& joins);

 private:
  void sort();
};

}  // namespace tutti
