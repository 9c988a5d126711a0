#include "synthesis/greedy/greedy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bound/bound.hpp"
#include "bound/random_topology_test_kit.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

constexpr double kPatience = 30;
constexpr Collective kCollectives4[] = {Collective::all_gather, Collective::broadcast, Collective::gather,
                                        Collective::scatter};

Topology make(std::string_view spec) { return make_builtin(spec).value(); }

/// The schedule, after its promises were checked.
Schedule checked(Routes& routes, Collective collective, const GreedyOptions& options) {
  auto schedule = greedy_schedule(routes, collective, options, kPatience);
  if (!schedule) {
    ADD_FAILURE() << name_of(collective) << ": " << schedule.error().message;
    return {};
  }
  const Status status = check_schedule(*schedule);
  EXPECT_TRUE(status) << name_of(collective) << ": " << status.error().message;
  return *schedule;
}

/// How long the schedule takes when every link carries its chunks in the schedule's order.
double seconds_of(const Schedule& schedule, Routes& routes, double bytes) {
  const Topology& topology = routes.topology();
  const auto ranks = static_cast<std::size_t>(schedule.shape.ranks);
  const int pieces = schedule.shape.chunks * (schedule.shape.collective == Collective::broadcast ? 1 : int(ranks));
  std::vector<double> ready(topology.links().size());
  std::vector<double> there(static_cast<std::size_t>(chunks_of(schedule.shape)) * ranks);
  const auto arrival = [&](int chunk, int rank) -> double& {
    return there[std::size_t(chunk) * ranks + std::size_t(rank)];
  };
  double end = 0;
  for (const Transfer& transfer : schedule.transfers) {
    const std::vector<int> links = routes.links(transfer.from, transfer.to, transfer.channel);
    double start = arrival(transfer.chunk, transfer.from), latency = 0, slowest = 0;
    for (const int link : links) {
      start = std::max(start, ready[std::size_t(link)] - latency);
      latency += topology.link(link).latency.value();
    }
    latency = 0;
    for (const int link : links) {
      const double busy = bytes / pieces / topology.link(link).capacity.value();
      ready[std::size_t(link)] = start + latency + busy;
      latency += topology.link(link).latency.value();
      slowest = std::max(slowest, busy);
    }
    arrival(transfer.chunk, transfer.to) = start + latency + slowest;
    end = std::max(end, start + latency + slowest);
  }
  return end;
}

/// Time as a multiple of the bound.
double gap(std::string_view spec, Collective collective, double bytes, int chunks) {
  const Topology topology = make(spec);
  Routes routes(topology);
  const Schedule schedule = checked(routes, collective, {.chunks = chunks, .bytes = bytes});
  const double result = seconds_of(schedule, routes, bytes) / bound(topology, collective)->seconds(bytes);
  EXPECT_GE(result, 0.999999) << spec << ": faster than the bound";
  return result;
}

TEST(Greedy, KeepsThePromisesOfASchedule_OnRandomTopologies) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Topology topology = random_topology(random, 2 + static_cast<int>(seed % 11), static_cast<int>(seed % 4));
    Routes routes(topology);
    for (const Collective collective : kCollectives4) {
      const GreedyOptions options{.root = static_cast<int>(seed) % topology.ranks(),
                                  .chunks = 1 + static_cast<int>(seed % 3),
                                  .bytes = seed % 2 == 0 ? 1 : 1e-4,
                                  .seed = seed};
      const Schedule schedule = checked(routes, collective, options);
      const double least = bound(topology, collective, options.root)->seconds(options.bytes);
      EXPECT_GE(seconds_of(schedule, routes, options.bytes), 0.999999 * least) << name_of(collective);
    }
  }
}

TEST(Greedy, IsNearTheBoundOfLargeSizes) {
  EXPECT_LT(gap("dgx-a100:nodes=10", Collective::all_gather, 1e9, 8), 1.02);
  EXPECT_LT(gap("ndv2:nodes=10", Collective::all_gather, 1e9, 8), 1.01);
  EXPECT_LT(gap("torus2d:8x10", Collective::all_gather, 1e9, 8), 1.001);
  EXPECT_LT(gap("hypercube:64", Collective::all_gather, 1e9, 8), 1.001);
  EXPECT_LT(gap("torus2d:8x10", Collective::broadcast, 1e9, 1024), 1.15);
}

TEST(Greedy, BringsGathersAndScattersToTheirBound) {
  for (const Collective collective : {Collective::gather, Collective::scatter}) {
    EXPECT_LT(gap("dgx-a100:nodes=10", collective, 1e9, 8), 1.01);
    EXPECT_LT(gap("dgx2:nodes=2", collective, 1e9, 8), 1.01);
    EXPECT_LT(gap("torus2d:8x10", collective, 1e9, 8), 1.001);
    EXPECT_LT(gap("ndv2:nodes=2", collective, 1e9, 1), 1.001);
  }
}

TEST(Greedy, SendsStraightWhereLatencyRules) {
  // Over the NICs to every GPU of the other node: bringing chunks there once and passing them on would be 12 % later.
  EXPECT_LT(gap("dgx2:nodes=2", Collective::all_gather, 1e3, 1), 1.05);
  EXPECT_LT(gap("dgx-a100:nodes=10", Collective::all_gather, 1e3, 1), 1.05);
  EXPECT_LT(gap("torus2d:8x10", Collective::all_gather, 1e3, 1), 1.01);
  EXPECT_LT(gap("dgx-a100:nodes=10", Collective::gather, 1e3, 1), 1.05);
}

TEST(Greedy, OvertakesASlowLinkByTwoFastOnes) {
  Topology topology("triangle");
  for (const char* name : {"a", "b", "c"}) topology.add_gpu(name, 0);
  const auto link = [&](int from, int to, std::int64_t microseconds) {
    topology.add_duplex({from, to, 1'000'000'000, Rational(microseconds, 1'000'000), "link"});
  };
  link(0, 1, 1);
  link(1, 2, 1);
  link(0, 2, 100);
  Routes routes(topology);
  const Schedule schedule = checked(routes, Collective::broadcast, {.bytes = 8});
  EXPECT_LT(seconds_of(schedule, routes, 8), 3e-6);
}

TEST(Greedy, UsesLinksSideBySide) {
  Topology topology("pair");
  for (const char* name : {"a", "b"}) topology.add_gpu(name, 0);
  for (int i = 0; i < 2; ++i) topology.add_duplex({0, 1, 1'000'000'000, Rational(1, 1'000'000), "link"});
  Routes routes(topology);
  const Schedule schedule = checked(routes, Collective::broadcast, {.chunks = 2, .bytes = 1e6});
  ASSERT_EQ(schedule.transfers.size(), 2U);
  EXPECT_NE(schedule.transfers[0].channel, schedule.transfers[1].channel);
}

TEST(Greedy, IsTheSameForTheSameSeed_AndAnotherForAnother) {
  const Topology topology = make("mi250:nodes=2");
  Routes routes(topology);
  const GreedyOptions one{.chunks = 2, .bytes = 1e6, .seed = 1}, other{.chunks = 2, .bytes = 1e6, .seed = 3};
  const auto first = checked(routes, Collective::all_gather, one).transfers;
  EXPECT_EQ(first, checked(routes, Collective::all_gather, one).transfers);
  EXPECT_NE(first, checked(routes, Collective::all_gather, other).transfers);
}

/// Two nodes of eight GPUs; what leaves a node does so through one GPU of each pair.
SketchPlan plan_of_pairs(const Topology& topology) {
  SketchPlan plan;
  for (int rank = 0; rank < topology.ranks(); ++rank) plan.sender_of.push_back(rank | 1);
  return plan;
}

TEST(Greedy, ObeysWhoMaySendToOtherNodes) {
  const Topology topology = make("dgx-a100:nodes=3");
  Routes routes(topology);
  const SketchPlan plan = plan_of_pairs(topology);
  const auto node = [](int rank) { return rank / 8; };
  for (const Collective collective : kCollectives4)
    for (const double bytes : {1e3, 1e9}) {
      const GreedyOptions options{.root = 2, .chunks = 2, .bytes = bytes, .plan = &plan};
      const Schedule schedule = checked(routes, collective, options);
      for (const Transfer& transfer : schedule.transfers) {
        if (node(transfer.from) == node(transfer.to)) continue;
        const int home = home_of(schedule.shape, transfer.chunk);
        EXPECT_EQ(transfer.from, home | 1) << name_of(collective) << ": chunk " << transfer.chunk;
        EXPECT_EQ(node(transfer.from), node(home)) << "by way of a third node";
      }
    }
}

TEST(Greedy, SendsOwnChunksFirst_WhereASketchSaysSo) {
  const Topology topology = make("dgx-a100:nodes=2");
  Routes routes(topology);
  SketchPlan plan = plan_of_pairs(topology);
  plan.own_chunks_first = true;
  const Schedule schedule = checked(routes, Collective::all_gather, {.chunks = 4, .bytes = 1e9, .plan = &plan});
  std::set<int> passed_on;  // ranks that have sent a chunk of others to the other node
  for (const Transfer& transfer : schedule.transfers) {
    if (transfer.from / 8 == transfer.to / 8) continue;
    if (home_of(schedule.shape, transfer.chunk) != transfer.from)
      passed_on.insert(transfer.from);
    else
      EXPECT_EQ(passed_on.count(transfer.from), 0U) << "rank " << transfer.from;
  }
}

TEST(Greedy, UsesFewOrManyConnections_AsASketchWishes) {
  const Topology topology = make("dgx2");
  Routes routes(topology);
  const auto connections = [&](ConnectionPolicy policy) {
    SketchPlan plan;
    plan.policy = policy;
    std::set<std::pair<int, int>> pairs;
    for (const Transfer& transfer :
         checked(routes, Collective::all_gather, {.chunks = 4, .bytes = 1e9, .plan = &plan}).transfers)
      pairs.emplace(transfer.from, transfer.to);
    return pairs.size();
  };
  EXPECT_LT(connections(ConnectionPolicy::fewest), 4U * 16);
  EXPECT_GT(connections(ConnectionPolicy::most), 14U * 16);
}

TEST(Greedy, SaysWhoCannotBeReachedUnderASketch) {
  Topology split("two pairs");
  for (int i = 0; i < 4; ++i) split.add_gpu("g" + std::to_string(i), i / 2);
  for (const auto& [one, other] : {std::pair(0, 1), {2, 3}, {1, 2}})
    split.add_duplex({one, other, 1'000'000'000, Rational(1, 1'000'000), "link"});
  Routes routes(split);
  SketchPlan plan;
  plan.sender_of = {0, 0, -1, -1};  // but rank 0 has no link to the other node
  for (const Collective collective : kCollectives4) {
    if (collective == Collective::gather) continue;
    const auto schedule = greedy_schedule(routes, collective, {.bytes = 1e6, .plan = &plan}, kPatience);
    ASSERT_FALSE(schedule) << name_of(collective);
    EXPECT_NE(schedule.error().message.find("the sketch leaves no way"), std::string::npos);
  }
}

TEST(Greedy, RefusesWhatItCannotDo) {
  const Topology topology = make("ring:4");
  Routes routes(topology);
  const auto error = [&](Collective collective, GreedyOptions options, double seconds) {
    const auto schedule = greedy_schedule(routes, collective, options, seconds);
    return schedule ? Error{} : schedule.error();
  };
  EXPECT_NE(error(Collective::all_reduce, {.bytes = 1}, 1).message.find("all_reduce"), std::string::npos);
  EXPECT_NE(error(Collective::broadcast, {.root = 4, .bytes = 1}, 1).message.find("root 4"), std::string::npos);
  EXPECT_NE(error(Collective::broadcast, {.chunks = 0, .bytes = 1}, 1).message.find("0 chunks"), std::string::npos);
  EXPECT_EQ(error(Collective::all_gather, {.bytes = 1}, 0).code, ErrorCode::timed_out);
}

}  // namespace
}  // namespace tutti
