#include "synthesis/trees/tree_growth.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "synthesis/trees/hop_order.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

int below(std::mt19937& random, int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); }

struct Graph {
  int ranks = 0;
  std::vector<RankLink> links;
  std::vector<std::int64_t> capacities;
};

Graph random_graph(std::mt19937& random) {
  Graph graph{2 + below(random, 8), {}, {}};
  for (int from = 0; from < graph.ranks; ++from)
    for (int to = 0; to < graph.ranks; ++to)
      if (from != to && below(random, 3) > 0) {
        graph.links.push_back({from, to, {{0}}});
        graph.capacities.push_back(below(random, 6));
      }
  return graph;
}

/// Every tree spans all ranks, senders before what they send on, and all together keep the capacities.
void expect_packed(const Graph& graph, const std::vector<GrownTree>& trees, const std::vector<TreeDemand>& demands) {
  std::vector<std::int64_t> left = graph.capacities, copies(static_cast<std::size_t>(graph.ranks), 0);
  for (const GrownTree& tree : trees) {
    copies[static_cast<std::size_t>(tree.root)] += tree.copies;
    std::vector<bool> reached(static_cast<std::size_t>(graph.ranks), false);
    reached[static_cast<std::size_t>(tree.root)] = true;
    for (const int index : tree.links) {
      const RankLink& link = graph.links[static_cast<std::size_t>(index)];
      EXPECT_TRUE(reached[static_cast<std::size_t>(link.from)]);
      EXPECT_FALSE(reached[static_cast<std::size_t>(link.to)]);
      reached[static_cast<std::size_t>(link.to)] = true;
      left[static_cast<std::size_t>(index)] -= tree.copies;
    }
    EXPECT_EQ(std::count(reached.begin(), reached.end(), true), graph.ranks);
  }
  EXPECT_TRUE(std::all_of(left.begin(), left.end(), [](std::int64_t room) { return room >= 0; }));
  for (const TreeDemand& demand : demands) EXPECT_EQ(copies[static_cast<std::size_t>(demand.root)], demand.copies);
}

TEST(TreeGrowth, PacksWhateverFlowsSayFits) {
  int packed = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Graph graph = random_graph(random);
    std::vector<TreeDemand> demands;
    for (int rank = 0; rank < graph.ranks; ++rank)
      if (rank == 0 || below(random, 3) == 0) demands.push_back({rank, 1 + below(random, 3)});
    if (!carries(graph.ranks, graph.links, graph.capacities, demands)) continue;
    ++packed;
    const auto preference = static_cast<Preference>(below(random, 3));
    const auto trees = grow_trees(graph.ranks, graph.links, graph.capacities, demands, preference, Deadline::in(10));
    ASSERT_TRUE(trees) << trees.error().message;
    expect_packed(graph, *trees, demands);
  }
  EXPECT_GE(packed, 200) << "else the graphs say little";
}

TEST(RankGraph, NeverGivesMoreThanALinkHas) {
  const Topology topology = make_builtin("ndv2:nodes=3").value();
  Routes routes(topology);
  for (const Wiring wiring : {Wiring::rails, Wiring::mesh}) {
    const auto links = rank_links(routes, wiring);
    std::mt19937 random(7);
    std::vector<std::int64_t> budgets;
    for (int link = 0; link < topology.link_count(); ++link) budgets.push_back(below(random, 40));
    const auto shares = share_out(links, budgets);
    for (std::size_t i = 0; i < links.size(); ++i)
      for (const int link : links[i].routes.front()) budgets[static_cast<std::size_t>(link)] -= shares[i];
    EXPECT_TRUE(std::all_of(budgets.begin(), budgets.end(), [](std::int64_t left) { return left >= 0; }));
  }
}

TEST(HopOrder, SendsWhatHasTheLongestWayToGoFirst) {
  const Topology topology = make_builtin("ring:size=4").value();
  Routes routes(topology);
  const auto way = [&](int from, int to) { return routes.links(from, to); };
  // Two trees leave rank 0 over the same link; the second goes on to rank 2 and 3.
  const std::vector<TreeHop> hops = {{-1, 1, way(0, 1)}, {-1, 1, way(0, 1)}, {1, 1, way(1, 2)}, {2, 1, way(2, 3)}};
  EXPECT_EQ(order_by_time(topology, hops), (std::vector<int>{1, 2, 0, 3}));
}

}  // namespace
}  // namespace tutti
