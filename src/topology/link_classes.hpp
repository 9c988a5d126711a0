// Links in classes of those that symmetries map to one another: whatever is the same for all ranks is the same for all
// links of a class. Pure functions.
#pragma once

#include <vector>

#include "topology/symmetry.hpp"

namespace tutti {

/// [link] = its class, from 0 in order of their first links. `symmetries` are of vertices, verified.
std::vector<int> classes_of_links(const Topology& topology, const std::vector<Permutation>& symmetries);

}  // namespace tutti
