// Packs spanning trees into a graph of ranks with whole capacities (Edmonds' theorem, as an algorithm): all trees grow
// together, one level of depth after the other, so that none becomes much higher than the rest. A tree takes an edge
// only if the capacity left still carries all trees to every rank; then no tree gets stuck.
// Pure functions.
#pragma once

#include <vector>

#include "base/clock.hpp"
#include "synthesis/trees/rank_graph.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct GrownTree {
  int root = 0;
  std::int64_t copies = 1;  // as many equal trees
  std::vector<int> links;   // indices of rank links, senders before what they send on
  std::vector<int> depth;   // [rank]
};

/// Which of a tree's next links comes first, among those with as much capacity. Which makes the lowest trees differs
/// from graph to graph.
enum class Preference : std::uint8_t {
  any,
  straight_on,  // on grids: as the link before
  fewest_ways,  // to ranks that few links lead to
};

/// `carries` must be true of the arguments. Gives up with timed_out at the deadline.
Result<std::vector<GrownTree>> grow_trees(int ranks, const std::vector<RankLink>& links,
                                          std::vector<std::int64_t> capacities, const std::vector<TreeDemand>& demands,
                                          Preference preference, Deadline deadline);

}  // namespace tutti
