// Where the ranks of a communicator sit, and the order in which neighbours should follow each other.
// Plain values; safe to use from any thread.
#pragma once

#include <vector>

#include "tutti/error.hpp"

namespace tutti {

struct Layout {
  std::vector<int> host_of;       // host index per rank; hosts are numbered from 0 without gaps
  std::vector<int> leaf_of_host;  // switch group per host; empty where unknown: all hosts count as one group

  int ranks() const { return static_cast<int>(host_of.size()); }
  int hosts() const;
  int leaf_of(int host) const;
  /// Ranks of one host, ascending; the index in this list is a rank's local index.
  std::vector<int> ranks_on(int host) const;
  /// True where every host has the same number of ranks.
  bool even() const;

  /// Fails where there is no rank, a host has no rank, or leaf_of_host has another size than the hosts.
  Status validate() const;

  static Layout one_host(int ranks);
  /// Consecutive ranks on each host; the last host takes what is left.
  static Layout blocks(int ranks, int ranks_per_host);
};

/// Hosts such that those of one leaf follow each other.
std::vector<int> host_order(const Layout& layout);

/// A ring over all ranks, whatever order the launcher gave: order[position] = rank. Ranks of a host are consecutive,
/// hosts follow host_order, and where possible the ring enters a host at the local index at which it left the one
/// before, so that such a hop stays on one rail.
std::vector<int> ring_order(const Layout& layout);

/// How often the ring, closed at its end, goes from a host of one leaf to a host of another.
int cross_leaf_hops(const Layout& layout, const std::vector<int>& order);

}  // namespace tutti
