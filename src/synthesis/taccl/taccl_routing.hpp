// TACCL's first stage: which links each chunk takes, by an integer program that leaves out the order of chunks.
//
// A binary for each decision (chunk over link, up to symmetry), a time for each arrival; sums bound the time of links
// and ports (taccl_trees.hpp). The send times of TACCL's program are left out, since they follow from the arrivals; its
// large constants are the time of the routes the search begins with, which nothing worth finding exceeds. Where these
// routes meet the bound, they are the optimum, and nothing is solved. Pure functions.
#pragma once

#include "synthesis/taccl/taccl_trees.hpp"

namespace tutti {

struct TacclRouting {
  TacclTrees trees;
  TacclCost cost;
  double bound = 0;      // seconds; no routes have a lower objective
  bool optimal = false;  // proven: the objective is the bound
  int rows = 0;          // of the integer program
  int binaries = 0;
};

/// The best found in `seconds`. Fails with invalid_argument where the sketch rules out all routes, with timed_out where
/// none were found.
Result<TacclRouting> route_chunks(const TacclProblem& problem, double seconds);

}  // namespace tutti
