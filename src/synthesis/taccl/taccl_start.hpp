// Routes to begin with, found by routing chunk after chunk around what the others load.
//
// Each chunk takes the ways that cost least where a link's price rises steeply with its load; then chunk after chunk is
// taken out and routed again, until nothing gets better. Where few connections are asked for, small sets of
// them are tried. Images of a chunk under the sketch's symmetries take the images
// of its links. In most of TACCL's own cases the result meets the bound, and no integer program need be solved.
// Deterministic but for the time limit.
#pragma once

#include <optional>

#include "synthesis/taccl/taccl_trees.hpp"

namespace tutti {

/// The best found in `seconds`, or until `bound` is met; none where symmetries rule out what was tried. Other seeds
/// find other routes.
std::optional<TacclTrees> find_routes(const TacclProblem& problem, const TacclBound& bound, unsigned seed,
                                      double seconds);

/// Whether every chunk gets to all ranks that want it, over its options only, and decisions that are to be the same
/// are.
bool keeps_to(const TacclProblem& problem, const TacclTrees& trees);

}  // namespace tutti
