// A topology without its switches: links from rank to rank, each a route (topology/routes.hpp), with capacities in
// whole trees. Trees are packed into this graph.
//
// What links between GPUs carry is given. What a switch or a NIC carries is shared out among pairs of ranks by a guess,
// the wiring; every physical link's budget is kept, so whatever fits into the graph fits into the machine. Whether the
// guess lost something is seen afterwards, by flows in the graph (`carries`). Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/routes.hpp"

namespace tutti {

/// Which pairs of ranks use switches.
enum class Wiring : std::uint8_t {
  rails,  // pairs of a node whose route stays there; across nodes, those with the same place in their nodes. Of more
          // than 128 nodes, those at distances 1, 2, 4 and so on, lest a rank have thousands of peers
  mesh,   // all pairs
};

/// From rank to rank; `routes` are the physical links of each route side by side.
struct RankLink {
  int from = 0;
  int to = 0;
  std::vector<std::vector<int>> routes;
};

/// Links that are direct, and those of the wiring; from all ranks, by the distance of their numbers.
std::vector<RankLink> rank_links(Routes& routes, Wiring wiring);
/// Those from one rank, in the same order.
std::vector<RankLink> rank_links_from(Routes& routes, Wiring wiring, int from);

/// How many trees may use each rank link, when each physical link has room for `budgets` trees. What pairs share is
/// shared evenly, and what is left goes round one by one.
std::vector<std::int64_t> share_out(const std::vector<RankLink>& links, std::vector<std::int64_t> budgets);

/// Trees that start at a rank.
struct TreeDemand {
  int root = 0;
  std::int64_t copies = 1;
};

/// Whether the trees can be packed (Edmonds): to each rank the graph carries a unit of every tree at once.
bool carries(int ranks, const std::vector<RankLink>& links, const std::vector<std::int64_t>& capacities,
             const std::vector<TreeDemand>& demands);

}  // namespace tutti
