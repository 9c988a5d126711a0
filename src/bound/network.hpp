// A topology in whole numbers, for fast exact flows and distances: capacities and latencies as multiples of the largest
// units that all of them are multiples of. Refers to the topology, which must outlive it. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

using Marks = std::vector<char>;  // by vertex: 1 for those in a set

inline constexpr std::int64_t kUnreachable = std::numeric_limits<std::int64_t>::max();

struct Network {
  const Topology* topology = nullptr;
  std::vector<std::int64_t> capacity;  // [link] in capacity_unit
  std::vector<std::int64_t> latency;   // [link] in latency_unit
  Rational capacity_unit;              // bytes per second
  Rational latency_unit;               // seconds

  /// Fails for a topology that is not valid, and where figures are so uneven that their multiples overflow.
  static Result<Network> of(const Topology& topology);

  /// Shortest distances from any of `ends`, or with `against`, to any of them; kUnreachable where there is no path.
  std::vector<std::int64_t> distances(const std::vector<int>& ends, bool against,
                                      const std::vector<std::int64_t>& lengths) const;

  /// The sum of the capacities of links that leave the set.
  std::int64_t capacity_out_of(const Marks& inside) const;
};

}  // namespace tutti
