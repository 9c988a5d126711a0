#include "synthesis/taccl/taccl_routing.hpp"

#include <gtest/gtest.h>

#include <set>

#include "synthesis/taccl/taccl_start.hpp"
#include "synthesis/taccl/taccl_test_kit.hpp"

namespace tutti {
namespace {

constexpr double kSeconds = 10;

TacclProblem problem_of(const char* topology, const char* sketch, Collective collective) {
  const ShippedCase shipped = shipped_case(topology, sketch, collective);
  return taccl_problem(taccl_model(shipped.profile, shipped.restrictions).value(), collective).value();
}

/// Microseconds of the optimum, proven.
double optimum(const char* topology, const char* sketch, Collective collective) {
  const TacclProblem problem = problem_of(topology, sketch, collective);
  const auto routing = route_chunks(problem, kSeconds);
  if (!routing) {
    ADD_FAILURE() << routing.error().message;
    return 0;
  }
  EXPECT_TRUE(routing->optimal);
  EXPECT_TRUE(keeps_to(problem, routing->trees));
  return routing->cost.time * 1e6;
}

// TACCL rounds what a chunk costs between nodes down to 107: its optima are 8 * 107 = 856, 64 * 107 = 6848 and, between
// four nodes, 24 * 107 = 2568. The file's 2.6 + 105 are 107.6.
TEST(TacclRouting, OfNdv2IsBoundByTheConnectionBetweenNodes) {
  EXPECT_NEAR(optimum("topo-ndv2-1MB", "sk1-ndv2-n2", Collective::all_gather), 8 * 107.6, 1e-6);
  EXPECT_NEAR(optimum("topo-ndv2-1MB", "sk1-ndv2-n2", Collective::all_to_all), 64 * 107.6, 1e-6);
  EXPECT_NEAR(optimum("topo-ndv2-1MB", "sk1-ndv2-n4", Collective::all_gather), 24 * 107.6, 1e-6);
}

TEST(TacclRouting, UsesAllConnectionsWhereAllArePossible) {
  // 64 connections share a NIC: 260 + 64 * 10.25, in 10 ns, once each.
  EXPECT_NEAR(optimum("topo-ndv2-1KB", "sk2-ndv2-n2", Collective::all_to_all), 9.16, 1e-6);
  EXPECT_NEAR(optimum("topo-ndv2-1KB", "sk2-ndv2-n2", Collective::all_gather), 9.16, 1e-6);
  // Eight connections share it; every chunk crosses once and is passed on over two links.
  EXPECT_NEAR(optimum("topo-ndv2-1MB", "sk3-ndv2-n2", Collective::all_to_all), 8 * 842.6, 1e-6);
}

TEST(TacclRouting, OfOneNodeIsWhatTheLinksIntoAGpuCarry) {
  // Seven chunks over two links of 23.3 and two of 46.3: three and three, one and none.
  EXPECT_NEAR(optimum("topo-ndv2-1MB", "sk1-ndv2-n1", Collective::all_gather), 3 * 23.3, 1e-6);
  EXPECT_NEAR(optimum("topo-dgx2-1MB", "sk1-dgx2-n1", Collective::all_gather), 15 * 8.3, 1e-6);
}

TEST(TacclRouting, IsProvenByTheIntegerProgramWhereNoBoundIsMet) {
  const TacclProblem problem = problem_of("topo-ndv2-1MB", "sk1-ndv2-n1", Collective::all_to_all);
  EXPECT_LT(bound_of(problem).time * 1e6, 3 * 46.3 - 1);
  EXPECT_NEAR(optimum("topo-ndv2-1MB", "sk1-ndv2-n1", Collective::all_to_all), 3 * 46.3, 1e-6);
}

TEST(TacclRouting, TakesFewOrManyConnectionsAsTheSketchAsks) {
  const auto connections = [](const char* sketch) {
    return route_chunks(problem_of("topo-dgx2-1KB", sketch, Collective::all_gather), kSeconds)->cost.connections;
  };
  EXPECT_EQ(connections("sk1-dgx2-n1"), 16);   // a ring
  EXPECT_EQ(connections("sk2-dgx2-n2"), 240);  // every pair
}

TEST(TacclRouting, IsTheSameUnderTheSymmetriesOfTheSketch) {
  const TacclProblem problem = problem_of("topo-ndv2-1MB", "sk1-ndv2-n2", Collective::all_gather);
  const TacclTrees trees = route_chunks(problem, kSeconds)->trees;
  const auto pairs = [&](int chunk, int shift) {
    std::set<std::pair<int, int>> ends;
    for (const int link : trees[std::size_t(chunk)])
      ends.emplace((problem.model.links[std::size_t(link)].from + shift) % 16,
                   (problem.model.links[std::size_t(link)].to + shift) % 16);
    return ends;
  };
  for (int chunk = 0; chunk < 8; ++chunk) EXPECT_EQ(pairs(chunk, 8), pairs(chunk + 8, 0)) << "chunk " << chunk;
}

TEST(TacclRouting, SaysWhyASketchCannotBeMet) {
  ShippedCase shipped = shipped_case("topo-ndv2-1MB", "sk1-ndv2-n2", Collective::all_gather);
  shipped.restrictions.internode->gpus_of_sender = {{3, {0, 1}}};  // which has no connection
  const auto problem =
      taccl_problem(taccl_model(shipped.profile, shipped.restrictions).value(), Collective::all_gather);
  ASSERT_FALSE(problem);
  EXPECT_EQ(problem.error().message,
            "the sketch cannot be met: chunks of rank 0 cannot get to rank 8: gpus_to_sender_rev_map lets them leave "
            "their node through 3 only");
}

}  // namespace
}  // namespace tutti
