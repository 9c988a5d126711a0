// The greedy generator's part for collectives that copy to all, all_gather and broadcast: whenever an inlet and the
// links before it are free, it takes a chunk that its rank lacks and nobody is bringing, the rarest of those it finds.
//
// Between islands (timed_network.hpp) a chunk is brought once, unless latency rules and to pass it on inside would take
// longer than to bring it again. A transfer that turns out to be late, since another can bring the chunk sooner, is
// dropped: until a chunk has arrived nobody builds on it.
#pragma once

#include <vector>

#include "base/clock.hpp"
#include "synthesis/greedy/greedy.hpp"
#include "synthesis/greedy/timed_network.hpp"

namespace tutti {

/// Transfers in the order of their starts. Fails with timed_out, or where the sketch leaves a chunk no way to a rank.
Result<std::vector<Transfer>> spread(TimedNetwork& network, const Shape& shape, const GreedyOptions& options,
                                     Deadline deadline);

}  // namespace tutti
