// Routes of all chunks, as TACCL's routing prices them: no order among the chunks of a link, only sums.
//
// The time of routes is the largest of: what any link or port carries in all; when any chunk arrives, were it alone;
// and when a rank that got a chunk has passed it on through a port to all it sends it to. Where a sketch asks for few
// or many connections, or for evenly used links, that counts a little beside time. Pure functions.
#pragma once

#include <vector>

#include "synthesis/taccl/taccl_problem.hpp"

namespace tutti {

/// [chunk] the links it takes, each after the one that brings it to the link's sender.
using TacclTrees = std::vector<std::vector<int>>;

struct TacclLoads {
  std::vector<double> links;  // seconds each carries something
  std::vector<double> ports;
};
TacclLoads loads_of(const TacclProblem& problem, const TacclTrees& trees);

/// [chunk * ranks + rank] seconds; negative: it is never there.
std::vector<double> arrivals_of(const TacclProblem& problem, const TacclTrees& trees);

struct TacclCost {
  double time = 0;       // seconds
  double objective = 0;  // seconds, with what the sketch asks for beside time
  int connections = 0;   // pairs of ranks of the first node that use a link between them
};
TacclCost cost_of(const TacclProblem& problem, const TacclTrees& trees);

/// What counts beside time: a thousandth of the cheapest transfer for each connection, as little as TACCL's 0.01 is in
/// its files' units; a hundredth of the busiest or idlest link's time.
double connection_weight(const TacclProblem& problem);
inline constexpr double kBalanceWeight = 0.01;

/// What no routes can beat: the farthest way; ranks and nodes that must receive or send a number of chunks, over links
/// that each carry a whole number of them.
struct TacclBound {
  double time = 0;
  double objective = 0;
};
TacclBound bound_of(const TacclProblem& problem);

}  // namespace tutti
