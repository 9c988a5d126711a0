// TACCL's method: its three stages, on Cbc instead of a commercial solver, and what its model says the result takes.
//
//   routing      which links each chunk takes (taccl_routing.hpp)
//   ordering     in which order each link carries its chunks (taccl_ordering.hpp)
//   contiguity   exact times, and which chunks go between nodes together (taccl_contiguity.hpp)
// A reduce_scatter is the all_gather of the machine turned round, backwards, with sums one after the other; an
// all_reduce is that and then an all_gather, which in TACCL's model do not overlap. TACCL turns the all_gather itself
// round, and so reduces over connections that its sketch does not list; here the machine is, so that the program runs
// on the machine that was sketched.
//
// Times are TACCL's (taccl_model.hpp), not the simulator's: what a result is to be held against. Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "synthesis/schedule.hpp"
#include "topology/formats/format_taccl.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct TacclOptions {
  double bytes = 0;    // of the whole vector, as certificates count; 0: chunks as large as the profile's
  double seconds = 9;  // to search; what is found by then is the result
};

/// A schedule, and when its transfers are on their way in TACCL's model. Backwards, where it is for a reduction: what
/// it says to begin at t ends t before the end.
struct TacclPlan {
  Schedule schedule;
  std::vector<double> begins, ends;  // [transfer] seconds
};

struct TacclResult {
  TacclPlan plan;                      // of a reduce_scatter: the all_gather it is backwards (lower_reversed)
  std::optional<TacclPlan> reduction;  // of an all_reduce: what comes before the plan, likewise
  double bytes = 0;                    // of the whole vector
  double seconds = 0;                  // of TACCL's model, for the whole collective
  double routed_seconds = 0;           // after the first stage, which leaves out order: less than `seconds`
  double ordered_seconds = 0;          // after the second stage, where no chunks go together
  bool routing_optimal = false;        // proven
  double routing_gap = 0;              // where it is not: by how much routes may be better, as a part of their bound
  bool joining_optimal = false;        // proven, for these routes and orders
  int rows = 0;                        // of the routing's integer programs
  int binaries = 0;
  double solve_seconds = 0;  // what the search took
};

/// all_gather, all_to_all, reduce_scatter or all_reduce. Every transfer has a route in the sketched topology
/// (apply_sketch). Fails with invalid_argument, and says why, where the sketch does not fit or rules out all routes;
/// with timed_out where no routes were found in time.
Result<TacclResult> taccl_synthesize(const NodeProfile& profile, const Sketch& sketch, Collective collective,
                                     const TacclOptions& options = {});

}  // namespace tutti
