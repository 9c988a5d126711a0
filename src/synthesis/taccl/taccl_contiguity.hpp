// TACCL's third stage: which chunks go between nodes together.
//
// Routes and orders are fixed. Consecutive chunks of a link between nodes may go together, up to six, where no other
// peer's chunk comes in between at a port: they begin when all are there, cost alpha + beta * their number, and arrive
// together. That saves time at the link and costs the first ones some. For a reduction only chunks of one block do.
// Each link's chunks are put together by dynamic programming, with the times of all others fixed, link after link as
// long as it helps; then an integer program looks for better, where it is small enough and a bound does not tell that
// there is none. TACCL gives every pair of chunks within reach a binary; here every two neighbours have one, which says
// the same. Pure functions.
#pragma once

#include "synthesis/taccl/taccl_times.hpp"

namespace tutti {

/// Joins found by dynamic programming, until none help or `seconds` are over.
TacclTimes join_sends(const TacclProblem& problem, const TacclOrders& orders, bool reduction, double seconds);

/// Better ones, if there are, by the integer program; says whether they are the best.
TacclTimes improve_joins(const TacclProblem& problem, const TacclOrders& orders, bool reduction, TacclTimes times,
                         double seconds);

}  // namespace tutti
