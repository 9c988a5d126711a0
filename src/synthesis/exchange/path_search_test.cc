#include "synthesis/exchange/path_search.hpp"

#include <gtest/gtest.h>

#include "synthesis/exchange/path_order.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

/// All hops of a topology, and the search of all its sources.
struct Case {
  explicit Case(Topology given, const SketchPlan* plan = nullptr)
      : topology(std::move(given)), routes(topology), hops(routes, plan) {
    hops.add_all(1000);
    search.hops = &hops;
    search.resources = Resources::of_links(topology);
    for (int rank = 0; rank < topology.ranks(); ++rank) search.sources.push_back(rank);
  }

  int hop(int from, int to) { return hops.between(from, to).first; }

  Topology topology;
  Routes routes;
  HopTable hops;
  PathProblem search;
};

/// GPUs in a row, each a node of its own if `apart`.
Topology line(int gpus, bool apart = false) {
  Topology topology("line");
  for (int i = 0; i < gpus; ++i) topology.add_gpu("g" + std::to_string(i), apart ? i : 0);
  for (int i = 0; i + 1 < gpus; ++i) topology.add_duplex({i, i + 1, 1, 0, "link"});
  return topology;
}

TEST(Hops, AreAsManyAsThereAreRoutesSideBySide) {
  Topology topology = line(2);
  topology.add_link({0, 1, 1, 0, "second"});
  Case all(std::move(topology));
  EXPECT_EQ(all.hops.between(0, 1).count, 2);
  EXPECT_EQ(all.hops.between(1, 0).count, 1);
  EXPECT_EQ(all.hops.leaving(0).size(), 2U);
  EXPECT_NE(all.hops.links(all.hop(0, 1))[0], all.hops.links(all.hop(0, 1) + 1)[0]);
}

TEST(Hops, InsideNodesLeaveOutWaysThroughAFabric) {
  const Topology topology = make_builtin("ndv2:nodes=2").value();
  Routes routes(topology);
  ASSERT_EQ(routes.count(0, 5), 1) << "by way of the NIC";
  HopTable inside(routes);
  inside.add_inside_nodes();
  EXPECT_EQ(inside.leaving(0).size(), 4U) << "NVLinks to four GPUs";
}

TEST(Hops, ThatManyCanTakeAreThinnedOutButConnect) {
  const Topology topology = make_builtin("dgx-a100:nodes=4").value();
  Routes routes(topology);
  HopTable hops(routes);
  hops.add_all(100);
  EXPECT_EQ(hops.leaving(0).size(), 7U + 3U) << "the node, and the counterparts";
}

TEST(PathProblem, SplitsBlocksOverBothWaysAroundARing) {
  Case ring(make_builtin("ring:4").value());
  ring.search.chunks = 2;
  const FoundPaths found = find_paths(ring.search, 1);
  // Each rank sends one block to each side and two halves to the rank opposite, over two links each way: 1 + 1 + 1.
  const double link = ring.topology.link(0).capacity.value();
  EXPECT_NEAR(found.rate * link, (1 + 0.5 * 2) / 4, 1e-9);
}

TEST(PathProblem, SaysWhomItCannotReach) {
  const SketchPlan plan;  // straight between nodes
  Case apart(line(3, true), &plan);
  const FoundPaths found = find_paths(apart.search, 1);
  EXPECT_EQ(found.unreached_from, 0);
  EXPECT_EQ(found.unreached_to, 2);
}

TEST(PathOrder, TakesTheLongestWayFirst) {
  Case row(line(4));
  std::vector<Path> paths(16);
  for (int target = 1; target < 4; ++target)
    for (int rank = 0; rank < target; ++rank)
      paths[static_cast<std::size_t>(target)].push_back(row.hop(rank, rank + 1));
  std::vector<int> first_link;
  for (const Transfer& transfer : order_paths(row.search, paths))
    if (transfer.from == 0) first_link.push_back(transfer.chunk);
  EXPECT_EQ(first_link, (std::vector<int>{3, 2, 1}));
}

TEST(PathOrder, LetsASendersOwnChunksGoFirstWhereASketchWantsIt) {
  SketchPlan plan;
  plan.own_chunks_first = true;
  for (const bool own_first : {false, true}) {
    Topology topology("two nodes");
    for (int i = 0; i < 4; ++i) topology.add_gpu("g" + std::to_string(i), i / 2);
    topology.add_duplex({0, 1, 100, 0, "fast"});
    topology.add_duplex({1, 2, 1, 0, "slow"});
    topology.add_duplex({2, 3, 100, 0, "fast"});
    Case two(std::move(topology), own_first ? &plan : nullptr);
    // Rank 1 has two chunks for 2, and passes on two from 0 that have farther to go, and come while it sends its first.
    two.search.chunks = 2;
    std::vector<Path> paths(32);
    const auto path = [&](int from, int to, int piece) -> Path& {
      return paths[static_cast<std::size_t>((from * 4 + to) * 2 + piece)];
    };
    for (int piece = 0; piece < 2; ++piece) {
      path(0, 3, piece) = {two.hop(0, 1), two.hop(1, 2), two.hop(2, 3)};
      path(1, 2, piece) = {two.hop(1, 2)};
    }
    std::vector<int> sources;
    for (const Transfer& transfer : order_paths(two.search, paths))
      if (transfer.to == 2) sources.push_back(transfer.chunk / 2 / 4);
    EXPECT_EQ(sources, own_first ? (std::vector<int>{1, 1, 0, 0}) : (std::vector<int>{1, 0, 0, 1})) << own_first;
  }
}

}  // namespace
}  // namespace tutti
