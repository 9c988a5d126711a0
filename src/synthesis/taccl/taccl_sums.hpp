// In which order a rank adds up what it gets of one block, in TACCL's reductions: one after the other, because a sum is
// read, added to and written. TACCL leaves that order to its last integer program. Here sums that follow each other on
// a longest way are exchanged, the best exchange first, a last one not taken back at once (a taboo search). Pure.
#pragma once

#include "synthesis/taccl/taccl_times.hpp"

namespace tutti {

/// The orders with the lanes of ranks and chunks rearranged, where that takes less time without joins.
TacclOrders rearrange_sums(const TacclProblem& problem, TacclOrders orders, double seconds);

}  // namespace tutti
