// Schedules of all_to_all: how the block for every other rank is routed, through GPUs where that is the way, and when.
// Straight routes and relays inside nodes are tried first, since where they meet the bound nothing is better; of those
// that do, the one with fewest peers is taken, because every peer is a worker. Elsewhere paths are searched, for one
// source where the topology is symmetric, else for all; blocks are split where that evens out links (path_search.hpp).
// Transfers are ordered so that at any time few of them want the same port (path_order.hpp).
// Pure functions.
#pragma once

#include "synthesis/schedule.hpp"
#include "topology/routes.hpp"
#include "topology/sketch/sketch.hpp"

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
