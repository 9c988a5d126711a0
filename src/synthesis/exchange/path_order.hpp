// When the chunks of an exchange take the hops of their paths. A program has a worker for every pair of ranks and
// channel: a queue that sends one chunk after the other and knows nothing of other queues. Links serve chunks in the
// order in which they come. The functions here play this through, as the simulator would: whenever a queue may send, it
// takes the chunk that has the longest way still to go, so that no long way is left for the end. At the beginning
// queues start with the nearest rank after the sender, so that ports of receivers are used evenly. Latencies do not
// count.
// Pure functions.
#pragma once

#include <vector>

#include "synthesis/exchange/path_search.hpp"
#include "synthesis/schedule.hpp"

namespace tutti {

/// The transfers of all hops of all paths, by the times they begin. `queue_of_hop`: where paths of one source are to be
/// moved to all others, hops that are moved to one another have one queue; empty: each has its own.
std::vector<Transfer> order_paths(const PathProblem& search, const std::vector<Path>& paths,
                                  std::vector<int> queue_of_hop = {});

}  // namespace tutti
