// Schedules of all_to_all: how the block for every other rank is routed, through GPUs where that is the way, and when.
// Paths come from the concurrent flow whose dual is the bound: by linear programming for one source where the topology
// is symmetric, by multiplicative weights or column generation elsewhere; straight routes are tried first, since where
// they meet the bound nothing is better. A path is one chunk's way; blocks are split where a flow is. Transfers are
// ordered in rounds, so that at any time few of them want the same port.
// Pure functions.
#pragma once

#include "synthesis/schedule.hpp"
#include "topology/routes.hpp"
#include "topology/sketch.hpp"

namespace tutti {

struct ExchangeOptions {
  int most_chunks = 8;               // per block
  double enough = 0;                 // seconds per byte: a flow within 1 % of it is good enough; 0: not known
  const SketchPlan* plan = nullptr;  // what a sketch demands; may be null
};

struct Exchange {
  Schedule schedule;
  double rate = 0;  // seconds per byte of a rank's buffer that the busiest link takes
};

/// The best found in `seconds`; straight routes or shortest paths in any case.
Result<Exchange> make_exchange(Routes& routes, const ExchangeOptions& options, double seconds);

}  // namespace tutti
