// The translations (program/translations.hpp) that are symmetries of a topology: nodes around a fabric, GPUs around a
// switch, tori and hypercubes are moved so. Those found here are verified (topology/symmetry.hpp), and so is every sum
// of them; so what one rank does, every rank it is moved to can do at the same time, on links of its own.
// Pure functions.
#pragma once

#include <vector>

#include "program/translations.hpp"
#include "topology/topology.hpp"

namespace tutti {

struct FoundTranslations {
  Translations group;
  std::vector<int> orbit_of_link;  // [link] = the smallest link some translation takes to it
};

/// The largest group found by trying the digits that nodes, their GPUs and the neighbours of rank 0 suggest. It may be
/// the trivial one, which moves nothing. Near-linear in the links for each digit tried.
FoundTranslations find_translations(const Topology& topology);

}  // namespace tutti
