// When the chunks of an exchange take the hops of their paths: list scheduling. A transfer waits in line at the busiest
// link of its hop; whenever that is free, the chunk with the longest way still to go is next, so that no long way is
// left for the end; among equals the target that comes first after the source, so that at any time targets differ.
// The other links of a hop serve in order of coming. Latencies do not count. Pure functions.
#pragma once

#include <vector>

#include "synthesis/path_search.hpp"
#include "synthesis/schedule.hpp"

namespace tutti {

/// The transfers of all hops of all paths, by the times they begin.
std::vector<Transfer> order_paths(const PathSearch& search, const std::vector<Path>& paths);

}  // namespace tutti
