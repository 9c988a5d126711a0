// When the chunks of an exchange take the hops of their paths. Programs have a worker for every pair of ranks and
// channel, a lane, which sends one chunk after the other and knows nothing of other lanes; links serve in the order of
// coming. So that is played through, as the simulator would: whenever a lane is free, it takes the chunk with the
// longest way still to go of those that are there, so that no long way is left for the end. At the beginning lanes
// start with the nearest rank after the sender, so that ports of receivers are used evenly. Latencies do not count.
// Pure functions.
#pragma once

#include <vector>

#include "synthesis/exchange/path_search.hpp"
#include "synthesis/schedule.hpp"

namespace tutti {

/// The transfers of all hops of all paths, by the times they begin. `lane_of_hop`: where paths of one source are to be
/// moved to all others, hops that are moved to one another have one lane; empty: each has its own.
std::vector<Transfer> order_paths(const PathSearch& search, const std::vector<Path>& paths,
                                  std::vector<int> lane_of_hop = {});

}  // namespace tutti
