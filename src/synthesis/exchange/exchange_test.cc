#include "synthesis/exchange/exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "bound/bound.hpp"
#include "bound/random_topology_test_kit.hpp"
#include "simulation/simulate.hpp"
#include "synthesis/lower.hpp"
#include "topology/builtin/builtin.hpp"
#include "topology/formats/load.hpp"

namespace tutti {
namespace {

constexpr double kSeconds = 4;

Topology make(const std::string& spec) { return make_builtin(spec).value(); }

double bound_of(const Topology& topology) {
  return bound(topology, Collective::all_to_all, 0, {true, 1}).value().for_large().rate.value();
}

int node_of(const Topology& topology, int rank) { return topology.vertex(topology.gpu(rank)).node; }

/// Seconds per byte of a rank's buffer, added up transfer by transfer.
double rate_of(const Schedule& schedule, Routes& routes) {
  const Topology& topology = routes.topology();
  std::vector<double> busy(static_cast<std::size_t>(topology.link_count()), 0);
  for (const Transfer& transfer : written_out(schedule).transfers)
    for (const int link : routes.links(transfer.from, transfer.to, transfer.channel))
      busy[static_cast<std::size_t>(link)] += 1 / topology.link(link).capacity.value();
  return *std::max_element(busy.begin(), busy.end()) / (schedule.shape.ranks * schedule.shape.chunks);
}

/// Made, and found to keep its promises.
Exchange checked(const Topology& topology, const ExchangeOptions& options) {
  Routes routes(topology);
  Exchange exchange = make_exchange(routes, options, kSeconds).value();
  const Status status = check_schedule(exchange.schedule);
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_NEAR(exchange.rate / rate_of(exchange.schedule, routes), 1, 1e-9) << "what it says of itself";
  EXPECT_LE(exchange.schedule.shape.chunks, options.most_chunks);
  for (const Transfer& transfer : exchange.schedule.transfers)
    EXPECT_LT(transfer.channel, std::max(1, routes.count(transfer.from, transfer.to)));
  return exchange;
}

/// Simulated time of a gigabyte for each rank over the bound, less one.
double simulated_gap(const Topology& topology, const ExchangeOptions& options) {
  Routes routes(topology);
  const Exchange exchange = make_exchange(routes, options, kSeconds).value();
  LowerOptions lowering;
  lowering.name = "exchange";
  lowering.routes_period = routes.period();
  const Program program = lower(exchange.schedule, lowering).value();
  SimulationOptions simulation;
  const auto pieces = static_cast<std::uint64_t>(exchange.schedule.shape.ranks * exchange.schedule.shape.chunks);
  simulation.bytes = 1'000'000'000 / pieces * pieces;
  const double seconds = simulate(program, routes, simulation).value().seconds;
  return seconds / (options.enough * static_cast<double>(simulation.bytes)) - 1;
}

TEST(Exchange, IsRightAndNoFasterThanTheBoundOnRandomTopologies) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const int gpus = 2 + static_cast<int>(random() % 7), switches = static_cast<int>(random() % 4);
    const Topology topology = random_topology(random, gpus, switches);
    ExchangeOptions options;
    options.most_chunks = 1 + static_cast<int>(random() % 8);
    options.enough = random() % 2 == 0 ? 0 : bound_of(topology);
    EXPECT_GE(checked(topology, options).rate * (1 + 1e-9), bound_of(topology)) << "seed " << seed;
  }
}

TEST(Exchange, ComesNearTheLinearProgramOnRandomTopologiesOfGpusOnly) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    const Topology topology = random_topology(random, 8, 0);
    ExchangeOptions options;
    options.enough = bound_of(topology);
    EXPECT_LE(checked(topology, options).rate, options.enough * 1.05) << "seed " << seed;
  }
}

TEST(Exchange, MeetsTheBoundOnKnownMachines) {
  for (const char* spec :
       {"ndv2:nodes=2", "ndv2:nodes=10", "dgx2:nodes=2", "dgx-a100:nodes=2", "dgx-a100:nodes=10", "dgx-h100:nodes=4",
        "mi250:nodes=2", "hypercube:64", "mesh:8x8", "torus2d:8x10", "torus3d:4x4x4", "ring:9"}) {
    const Topology topology = make(spec);
    ExchangeOptions options;
    options.enough = bound_of(topology);
    EXPECT_LE(checked(topology, options).rate, options.enough * 1.01) << spec;
  }
  EXPECT_NEAR(bound_of(make("ndv2:nodes=2")), 1 / 3.125e9, 1e-14);
}

TEST(Exchange, TakesLittleMoreThanTheBoundWhenSimulated) {
  for (const char* spec :
       {"ndv2:nodes=10", "dgx-a100:nodes=10", "torus2d:8x10", "mi250:nodes=2", "mesh:6x6", "dgx-h100:nodes=4"}) {
    const Topology topology = make(spec);
    ExchangeOptions options;
    options.enough = bound_of(topology);
    const double gap = simulated_gap(topology, options);
    EXPECT_LE(gap, 0.02) << spec;
    EXPECT_GE(gap, -1e-3) << spec;  // a gigabyte is not a multiple of all blocks' pieces
  }
}

TEST(Exchange, TakesLittleMoreThanTheBoundOnAnIrregularGraph) {
  const Topology topology = irregular_topology(80, 1);
  ExchangeOptions options;
  options.enough = bound_of(topology);
  EXPECT_LE(simulated_gap(topology, options), 0.05);
}

TEST(Exchange, HasAnExampleOfAnIrregularGraph) {
  EXPECT_EQ(load_topology(TUTTI_EXAMPLES "/topologies/irregular80.json").value(), irregular_topology(80, 1));
}

TEST(Exchange, IsAsGoodForOneSourceMovedAsForAll) {
  const SketchPlan free_plan;  // a plan keeps paths from being moved
  for (const char* spec : {"torus2d:5x4", "torus2d:3x6", "hypercube:16", "ring:8"}) {
    const Topology topology = make(spec);
    ExchangeOptions options;
    options.enough = bound_of(topology);
    const Exchange moved = checked(topology, options);
    EXPECT_EQ(moved.schedule.generator, "searched paths, moved") << spec;
    options.plan = &free_plan;
    const Exchange searched = checked(topology, options);
    EXPECT_EQ(searched.schedule.generator, "searched paths") << spec;
    EXPECT_NEAR(moved.rate / searched.rate, 1, 0.02) << spec;  // of 64 chunks on a link, one may be too many
  }
}

TEST(Exchange, RelaysInsideNodesToHaveFewPeers) {
  const Topology topology = make("dgx-a100:nodes=10");
  ExchangeOptions options;
  options.enough = bound_of(topology);
  std::set<std::pair<int, int>> pairs;
  for (const Transfer& transfer : checked(topology, options).schedule.transfers)
    pairs.insert({transfer.from, transfer.to});
  EXPECT_EQ(pairs.size(), 80U * (7 + 9)) << "all of the node, and one GPU of each other node";
}

TEST(Exchange, OfVeryManyRanksThatAreAlikeIsToldOnce) {
  const Topology topology = make("dgx-a100:nodes=40");
  ExchangeOptions options;
  options.enough = bound_of(topology);
  const Exchange exchange = checked(topology, options);
  EXPECT_EQ(exchange.schedule.symmetry.order(), 320);
  EXPECT_LE(exchange.rate, options.enough * 1.01);
  const Status whole = check_schedule(written_out(exchange.schedule));
  EXPECT_TRUE(whole) << whole.error().message;
}

TEST(Exchange, LeavesNodesOnlyByTheSendersOfASketch) {
  const Topology topology = make("dgx-a100:nodes=3");
  SketchPlan plan;
  for (int rank = 0; rank < topology.ranks(); ++rank) plan.sender_of.push_back(rank | 1);
  ExchangeOptions options;
  options.plan = &plan;
  const Schedule schedule = checked(topology, options).schedule;
  for (const auto& [chunk, from, to, channel] : schedule.transfers) {
    if (node_of(topology, from) == node_of(topology, to)) continue;
    const int source = home_of(schedule.shape, chunk), target = chunk / schedule.shape.chunks % topology.ranks();
    EXPECT_EQ(from, source | 1);
    EXPECT_EQ(node_of(topology, to), node_of(topology, target)) << "no third node";
  }
}

TEST(Exchange, SaysWhichRanksASketchKeepsApart) {
  SketchPlan plan;
  // In a line of three GPUs, each a node, there is no way from end to end but through the third.
  Topology line("line");
  for (int i = 0; i < 3; ++i) line.add_gpu("g" + std::to_string(i), i);
  line.add_duplex({0, 1, 1, 0, "link"});
  line.add_duplex({1, 2, 1, 0, "link"});
  ExchangeOptions options;
  options.plan = &plan;
  Routes routes(line);
  const auto made = make_exchange(routes, options, kSeconds);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("from rank 0 to rank 2"), std::string::npos) << made.error().message;
}

TEST(Exchange, IsThereEvenWithoutTimeToSearch) {
  const Topology topology = make("mesh:5x5");
  Routes routes(topology);
  const Exchange hurried = make_exchange(routes, {}, 0).value();
  EXPECT_TRUE(check_schedule(hurried.schedule));
}

}  // namespace
}  // namespace tutti
