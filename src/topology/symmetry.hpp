// Symmetries of a topology: permutations of its vertices that change nothing: kinds, skills, and every link with its
// bandwidth and latency stay. Where one maps rank a to rank b, what is proven for a holds for b; so bounds and trees
// need to be computed for one rank of each orbit only.
//
// Every permutation returned has been verified link by link; the search that finds it guesses and may miss one, never
// invent one. Node indices and names do not count. Pure functions, the same result for the same topology.
#pragma once

#include <optional>
#include <vector>

#include "topology/topology.hpp"

namespace tutti {

using Permutation = std::vector<int>;  // [vertex or rank] = its image

bool is_symmetry(const Topology& topology, const Permutation& vertices);

struct Symmetries {
  std::vector<Permutation> generators;  // of vertices
  std::vector<int> orbit_of;            // [rank] = the smallest rank of its orbit, as far as found

  /// One rank of each orbit, ascending.
  std::vector<int> representatives() const;
};

/// Near-linear in the number of links for each generator; a symmetric topology of 16,384 GPUs takes about a second.
Symmetries find_symmetries(const Topology& topology);

/// A symmetry that maps each rank r to ranks[r]; none where there is none, or it was not found.
std::optional<Permutation> extend_to_symmetry(const Topology& topology, const Permutation& ranks);

}  // namespace tutti
