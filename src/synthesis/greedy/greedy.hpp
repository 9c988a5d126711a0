// Schedules by matching chunks with free links, one moment after the other (TACOS' idea, with ports): whenever the
// links of a route are free, they carry a chunk that the receiver lacks and nobody else is bringing. Times are true:
// every link of a route is busy for bytes / capacity, a chunk has arrived after the route's latency. Works on any
// topology, with switches as they are; best where latency counts, a few percent from the bound where bandwidth does.
// Pure functions; the same schedule for the same options.
#pragma once

#include <cstdint>

#include "synthesis/schedule.hpp"
#include "topology/routes.hpp"
#include "topology/sketch/sketch.hpp"

namespace tutti {

struct GreedyOptions {
  int root = 0;                      // broadcast, gather, scatter
  int chunks = 1;                    // per block, or of a broadcast's vector
  double bytes = 0;                  // of the whole vector, as certificates count
  std::uint64_t seed = 1;            // ties are broken at random; even ones are freer with detours over the fabric
  const SketchPlan* plan = nullptr;  // what a sketch demands; may be null
};

/// `seconds_limit` from now on it gives up with timed_out.
Result<Schedule> greedy_schedule(Routes& routes, Collective collective, const GreedyOptions& options,
                                 double seconds_limit);

}  // namespace tutti
