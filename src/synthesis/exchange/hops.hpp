// Hops: the ways bytes take from GPU to GPU without a third, as numbers. A path of a chunk is a list of hops, each from
// where the last one ended; NICs and switches on a hop are no stops. The table holds what was asked for, or all.
// Refers to routes and plan, which must outlive it; not to be shared between threads.
#pragma once

#include <span>
#include <vector>

#include "topology/routes.hpp"
#include "topology/sketch/sketch.hpp"

namespace tutti {

struct Hop {
  int from = 0;  // ranks
  int to = 0;
  int channel = 0;
};

using Path = std::vector<int>;  // hops

/// Hops side by side: first, first + 1, ...
struct HopRange {
  int first = 0;
  int count = 0;
};

class HopTable {
 public:
  explicit HopTable(Routes& routes, const SketchPlan* plan = nullptr);

  /// The hops from rank to rank, one for each of its routes; none where there is no route.
  HopRange between(int from, int to);
  /// Makes all hops known. `most` stops it where a fabric makes more: then hops are those over links between GPUs,
  /// those inside a node and those to the same place of another node.
  void add_all(std::size_t most);
  /// Makes known those that stay among the GPUs, NICs and switches of one node.
  void add_inside_nodes();
  /// Of those known, the ones that leave a rank.
  const std::vector<int>& leaving(int rank) const { return leaving_[static_cast<std::size_t>(rank)]; }

  int count() const { return static_cast<int>(hops_.size()); }
  const Hop& hop(int index) const { return hops_[static_cast<std::size_t>(index)]; }
  std::span<const int> links(int index) const;
  const Topology& topology() const { return routes_.topology(); }
  int ranks() const { return topology().ranks(); }
  int node_of(int rank) const { return topology().vertex(topology().gpu(rank)).node; }

  /// Whether the plan lets chunks of `source` take the hop.
  bool allows(int source, const Hop& hop) const;
  /// Whether the plan wants chunks of `source` to wait for others at the hop: a sender's own go first to other nodes.
  bool yields(int source, const Hop& hop) const;

 private:
  bool stays_inside(int from, int to) const;

  Routes& routes_;
  const SketchPlan* plan_;
  std::vector<Hop> hops_;
  std::vector<int> links_, first_link_;
  std::vector<std::vector<int>> leaving_;
  std::vector<int> first_of_pair_, count_of_pair_;  // [from * ranks + to]; first -1: not asked for yet
};

/// [rank] = how many GPUs of its node come before it.
std::vector<int> places_in_nodes(const Topology& topology);

}  // namespace tutti
