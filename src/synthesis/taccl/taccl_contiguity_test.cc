#include "synthesis/taccl/taccl_contiguity.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "synthesis/taccl/taccl_routing.hpp"
#include "synthesis/taccl/taccl_sums.hpp"
#include "synthesis/taccl/taccl_test_kit.hpp"

namespace tutti {
namespace {

constexpr double kSeconds = 10;

TacclProblem problem_of(const char* topology, const char* sketch) {
  const ShippedCase shipped = shipped_case(topology, sketch, Collective::all_gather);
  return taccl_problem(taccl_model(shipped.profile, shipped.restrictions).value(), Collective::all_gather).value();
}

std::vector<bool> none(const TacclOrders& orders) { return std::vector<bool>(orders.sends.size(), false); }

/// By trying all joins of runs that are not too long.
double best_by_trying_all(const TacclProblem& problem, const TacclOrders& orders) {
  const std::vector<bool> joinable = joinable_sends(problem, orders, false);
  std::vector<std::size_t> where;
  for (std::size_t i = 0; i < joinable.size(); ++i)
    if (joinable[i]) where.push_back(i);
  double best = HUGE_VAL;
  for (unsigned set = 0; set < (1U << where.size()); ++set) {
    std::vector<bool> joins = none(orders);
    for (std::size_t i = 0; i < where.size(); ++i) joins[where[i]] = ((set >> i) & 1U) != 0;
    bool short_enough = true;
    for (const auto& lane : orders.lanes) {
      int run = 1;
      for (const int send : lane) {
        run = joins[std::size_t(send)] ? run + 1 : 1;
        short_enough = short_enough && run <= kMostTogether;
      }
    }
    if (short_enough) best = std::min(best, times_of(problem, orders, joins).seconds);
  }
  return best;
}

TEST(TacclContiguity, FindsTheBestJoins) {
  const TacclProblem problem = problem_of("topo-ndv2-32KB", "sk1-ndv2-n2");
  const TacclOrders orders = order_sends(problem, route_chunks(problem, kSeconds)->trees);
  const double best = best_by_trying_all(problem, orders);
  const TacclTimes times =
      improve_joins(problem, orders, false, join_sends(problem, orders, false, kSeconds), kSeconds);
  EXPECT_NEAR(times.seconds, best, 1e-12);
  EXPECT_TRUE(times.optimal);
  EXPECT_LE(least_time(problem, orders, joinable_sends(problem, orders, false)), best * (1 + 1e-9));
  EXPECT_LT(best, times_of(problem, orders, none(orders)).seconds);
}

TEST(TacclContiguity, KnowsWhereSendsWouldWaitForOneAnother) {
  // Two chunks of rank 0 over a link to another node, of which the second first goes there and back.
  TacclProblem problem = problem_of("topo-ndv2-1MB", "sk1-ndv2-n2");
  const auto link = [&](int from, int to) {
    const auto found = std::find_if(problem.model.links.begin(), problem.model.links.end(),
                                    [&](const TacclLink& one) { return one.from == from && one.to == to; });
    return int(found - problem.model.links.begin());
  };
  TacclOrders orders;
  orders.sends = {{0, link(0, 9), -1}, {0, link(9, 8), 0}, {1, link(0, 9), 1}};
  orders.lanes.resize(problem.model.links.size() + problem.model.ports.size());
  for (int send = 0; send < 3; ++send) orders.lanes[std::size_t(orders.sends[std::size_t(send)].link)].push_back(send);
  EXPECT_LT(times_of(problem, orders, none(orders)).seconds, HUGE_VAL);
  EXPECT_EQ(times_of(problem, orders, {false, false, true}).seconds, HUGE_VAL);
}

TEST(TacclOrdering, PutsEverySendOnItsLanesOnce) {
  for (const auto& [topology, sketch] : {std::pair("topo-dgx2-1KB", "sk1-dgx2-n1"),
                                         {"topo-ndv2-1KB", "sk1-ndv2-n1"},
                                         {"topo-ndv2-1KB", "sk2-ndv2-n4"}}) {
    const TacclProblem problem = problem_of(topology, sketch);
    const TacclOrders orders = order_sends(problem, route_chunks(problem, kSeconds)->trees);
    std::vector<std::size_t> count(orders.sends.size(), 0);
    for (const auto& lane : orders.lanes)
      for (const int send : lane) ++count[std::size_t(send)];
    for (std::size_t i = 0; i < count.size(); ++i)
      EXPECT_EQ(count[i], 1 + problem.ports_of[std::size_t(orders.sends[i].link)].size()) << sketch << " send " << i;
    EXPECT_LT(times_of(problem, orders, none(orders)).seconds, HUGE_VAL) << sketch;
  }
}

TEST(TacclOrdering, GivesWayToTheLongestWayToGoAroundASwitch) {
  // A ring: what has farthest to go leaves first, and nothing waits.
  const TacclProblem problem = problem_of("topo-dgx2-1MB", "sk1-dgx2-n1");
  const TacclOrders orders = order_sends(problem, route_chunks(problem, kSeconds)->trees);
  EXPECT_NEAR(times_of(problem, orders, none(orders)).seconds * 1e6, 15 * 8.3, 1e-6);
}

TEST(TacclSums, AreRearrangedForTheBetterOnly) {
  const TacclProblem problem = problem_of("topo-ndv2-1MB", "sk1-ndv2-n1");
  const TacclOrders copies = order_sends(problem, route_chunks(problem, kSeconds)->trees);
  const TacclOrders sums = order_reductions(problem, copies, times_of(problem, copies, none(copies)).begins);
  ASSERT_GT(sums.lanes.size(), copies.lanes.size());
  const TacclOrders better = rearrange_sums(problem, sums, kSeconds);
  EXPECT_LE(times_of(problem, better, none(better)).seconds, times_of(problem, sums, none(sums)).seconds);
  EXPECT_LT(times_of(problem, copies, none(copies)).seconds, times_of(problem, better, none(better)).seconds);
  for (std::size_t lane = 0; lane < sums.lanes.size(); ++lane)
    EXPECT_TRUE(std::is_permutation(sums.lanes[lane].begin(), sums.lanes[lane].end(), better.lanes[lane].begin()));
}

}  // namespace
}  // namespace tutti
