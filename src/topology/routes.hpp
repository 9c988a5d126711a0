// How bytes get from one GPU to another without passing through a third: over a link between them, or through NICs and
// switches. A route is the way with the fewest links, among those the one with the least latency. Where GPUs are joined
// by several links side by side, each is a route of its own, in the order of the links.
//
// A program says which rank sends to which, on which channel; the route follows from that: channel c takes route
// c mod count(from, to). So whoever makes, prices and runs a program means the same way.
// Refers to the topology, which must outlive it. Searches a source's routes at their first use and keeps them: not to
// be shared between threads.
#pragma once

#include <vector>

#include "topology/topology.hpp"

namespace tutti {

class Routes {
 public:
  explicit Routes(const Topology& topology);

  const Topology& topology() const { return *topology_; }
  /// Routes from rank to rank; 0: `to` is reached through other GPUs only.
  int count(int from, int to);
  /// The links a channel takes, in order; empty where there is no route.
  std::vector<int> links(int from, int to, int channel = 0);
  /// Ranks that `from` has a route to, ascending.
  std::vector<int> reached(int from);
  /// The number of channels after which all routes repeat.
  int period() const { return period_; }

 private:
  /// By vertex: the last link of the way from a source; -1: not reached.
  using Tree = std::vector<int>;

  const Tree& tree_of(int rank);
  std::vector<int> links_between(int from, int to) const;

  const Topology* topology_;
  std::vector<Tree> trees_;  // [rank], empty until asked for
  int period_ = 1;
};

}  // namespace tutti
