// The greedy generator's part for gather: every chunk moves towards the root, over links as they become free. A scatter
// is the gather of the reversed topology, backwards.
//
// Where chunks go is decided in two ways, and the one that ends sooner is taken: as it comes, by what is free and leads
// nearer to the root, which is good for small chunks; and along the paths of a maximum flow (gather_paths.hpp), which
// is good for large ones. A flow knows nothing of sketches: where there is one, only the first is tried.
#pragma once

#include <vector>

#include "base/clock.hpp"
#include "synthesis/greedy/greedy.hpp"
#include "synthesis/greedy/timed_network.hpp"

namespace tutti {

/// Whether the gather is one, or a scatter backwards; what a sketch says of senders is then meant of receivers.
enum class Direction { onward, backwards };

/// Transfers of a gather in the order of their starts. Fails with timed_out, or where the sketch leaves no way.
Result<std::vector<Transfer>> collect(const TimedNetwork& network, const Topology& topology, const Shape& shape,
                                      const GreedyOptions& options, Direction direction, Deadline deadline);

}  // namespace tutti
