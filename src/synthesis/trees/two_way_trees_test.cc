#include "synthesis/trees/two_way_trees.hpp"

#include <gtest/gtest.h>

#include <random>

#include "bound/bound.hpp"
#include "program/check/check.hpp"
#include "synthesis/lower.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

void expect_right(const TwoWayTrees& trees) {
  for (const Schedule* schedule : {&trees.down, &trees.up}) {
    const Status status = check_schedule(*schedule);
    EXPECT_TRUE(status) << status.error().message;
  }
  const auto program = lower_all_reduce(trees.up, trees.down, {.name = "two-way"});
  ASSERT_TRUE(program) << program.error().message;
  const CheckReport report = check(*program);
  EXPECT_TRUE(report.ok()) << report.violation->to_string();
}

/// Time per byte of the trees over that of the bound.
double ratio_to_bound(const Topology& topology) {
  const double limit = bound(topology, Collective::all_reduce)->for_large().rate.value();
  Routes routes(topology);
  const auto trees = pack_two_way_trees(routes, {.enough = limit}, Deadline::in(20));
  if (!trees) {
    ADD_FAILURE() << trees.error().message;
    return 0;
  }
  expect_right(*trees);
  return trees->rate / limit;
}

TEST(TwoWayTrees, AreNearTheBoundWhereOneWayIsNot) {
  EXPECT_LE(ratio_to_bound(make_builtin("mesh:8x10").value()), 1.02);
  EXPECT_LE(ratio_to_bound(make_builtin("mesh:4x4").value()), 1.02);
  EXPECT_LE(ratio_to_bound(make_builtin("ring:8").value()), 1.01);
}

/// Every link has its like in the other direction.
Topology random_graph(std::mt19937& random, int gpus, int switches) {
  const auto draw = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  Topology topology("random");
  for (int gpu = 0; gpu < gpus; ++gpu) topology.add_gpu("g" + std::to_string(gpu), 0);
  for (int i = 0; i < switches; ++i) topology.add_switch("s" + std::to_string(i), 0);
  const auto join = [&](int one, int other) { topology.add_duplex({one, other, 1 + draw(4), Rational(0), ""}); };
  const int vertices = gpus + switches;
  for (int vertex = 1; vertex < vertices; ++vertex) join(vertex, draw(vertex));
  for (int more = vertices; more > 0; --more)
    if (const int one = draw(vertices), other = draw(vertices); one != other) join(one, other);
  return topology;
}

/// Seconds per byte that no trees can beat: the worst of all partitions, by trying them (Tutte, Nash-Williams).
double least_rate(const Topology& topology) {
  double rate = 0;
  std::vector<int> party(static_cast<std::size_t>(topology.ranks()), 0);
  const auto try_all = [&](auto& self, std::size_t next, int parties) -> void {
    if (next < party.size()) {
      for (party[next] = 0; party[next] <= parties; ++party[next])
        self(self, next + 1, std::max(parties, party[next] + 1));
      return;
    }
    double across = 0;
    for (const Link& link : topology.links())
      if (party[static_cast<std::size_t>(link.from)] != party[static_cast<std::size_t>(link.to)])
        across += link.capacity.value();
    if (parties > 1) rate = std::max(rate, 2 * (parties - 1) / across);
  };
  try_all(try_all, 0, 0);
  return rate;
}

TEST(TwoWayTrees, OfRandomGraphsAreAsGoodAsTreesCanBe) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Topology topology = random_graph(random, 2 + static_cast<int>(random() % 7), 0);
    Routes routes(topology);
    const auto trees = pack_two_way_trees(routes, {.enough = least_rate(topology)}, Deadline::in(20));
    ASSERT_TRUE(trees) << trees.error().message;
    expect_right(*trees);
    EXPECT_GE(trees->rate / least_rate(topology), 1 - 1e-9);
    EXPECT_LE(trees->rate / least_rate(topology), 1.03);
  }
}

TEST(TwoWayTrees, PassThroughSwitches) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    EXPECT_GE(ratio_to_bound(random_graph(random, 2 + static_cast<int>(random() % 6), 2)), 1 - 1e-9);
  }
}

TEST(TwoWayTrees, NeedLinksBothWays) {
  Topology topology("one way round");
  for (const char* name : {"a", "b", "c"}) topology.add_gpu(name, 0);
  for (int gpu = 0; gpu < 3; ++gpu) topology.add_link({gpu, (gpu + 1) % 3, 1, Rational(0), ""});
  Routes routes(topology);
  const auto trees = pack_two_way_trees(routes, {}, Deadline::in(1));
  ASSERT_FALSE(trees);
  EXPECT_EQ(trees.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace tutti
