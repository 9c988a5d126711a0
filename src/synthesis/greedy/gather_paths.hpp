// Ways to the root that no link has too many of: the paths of a gather's chunks, by a maximum flow in whole chunks with
// the least time for which there is one. Pure function.
#pragma once

#include <vector>

#include "synthesis/greedy/timed_network.hpp"
#include "topology/topology.hpp"

namespace tutti {

/// [chunk of the gather] = the ways it takes, none for the root's own. Empty where a flow takes what is no way: it
/// knows links, not routes.
std::vector<std::vector<int>> gather_paths(const TimedNetwork& network, const Topology& topology, int root, int chunks);

}  // namespace tutti
