// A group of symmetries that moves every rank to every other in exactly one way, as the shifts of a torus do: then what
// rank 0 does, moved to every rank, is a whole, and every link of a class carries the same.
//
// Ranks are read as numbers of several digits; adding digit by digit, without carrying, must be a symmetry (verified,
// one generator for each digit). Tori, rings, hypercubes and nodes alike behind one fabric are such; other groups are
// not looked for. A plain value.
#pragma once

#include <optional>
#include <vector>

#include "topology/symmetry.hpp"

namespace tutti {

struct Translations {
  std::vector<int> radices;             // of the digits, the lowest first; their product is the number of ranks
  std::vector<Permutation> generators;  // of vertices: each adds 1 to a digit

  /// Where `rank` lies after the translation that moves rank 0 to `shift`.
  int moved(int rank, int shift) const;
};

/// None where there is no such group, or it is not of this kind.
std::optional<Translations> find_translations(const Topology& topology);

}  // namespace tutti
