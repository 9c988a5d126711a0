#include "algorithm/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace tutti {
namespace {

std::vector<int> ranks_from_0(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool is_permutation_of_ranks(std::vector<int> order) {
  std::sort(order.begin(), order.end());
  return order == ranks_from_0(static_cast<int>(order.size()));
}

int local_index(const Layout& layout, int rank) {
  const auto local = layout.ranks_on(layout.host_of[static_cast<std::size_t>(rank)]);
  return static_cast<int>(std::find(local.begin(), local.end(), rank) - local.begin());
}

/// Hops of the closed ring between hosts, and how many of them change the local index.
struct HostHops {
  int all = 0;
  int off_rail = 0;
};
HostHops host_hops(const Layout& layout, const std::vector<int>& order) {
  HostHops hops;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int from = order[i];
    const int to = order[(i + 1) % order.size()];
    if (layout.host_of[static_cast<std::size_t>(from)] == layout.host_of[static_cast<std::size_t>(to)]) continue;
    ++hops.all;
    hops.off_rail += local_index(layout, from) != local_index(layout, to);
  }
  return hops;
}

TEST(RingOrder, OnOneHostIsRankOrder) { EXPECT_EQ(ring_order(Layout::one_host(8)), ranks_from_0(8)); }

TEST(RingOrder, CrossesLeavesAsRarelyAsPossibleWhateverTheLaunchOrder) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Layout layout = Layout::blocks(32, 1);
    for (int host = 0; host < 32; ++host) layout.leaf_of_host.push_back(host % 4);
    std::shuffle(layout.leaf_of_host.begin(), layout.leaf_of_host.end(), std::mt19937(seed));
    const auto order = ring_order(layout);
    EXPECT_TRUE(is_permutation_of_ranks(order));
    EXPECT_EQ(cross_leaf_hops(layout, order), 4);
  }
}

TEST(RingOrder, KeepsRanksOfAHostTogetherWhateverTheLaunchOrder) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Layout layout = Layout::blocks(64, 8);
    layout.leaf_of_host = {0, 1, 0, 1, 0, 1, 0, 1};
    std::shuffle(layout.host_of.begin(), layout.host_of.end(), std::mt19937(seed));
    const auto order = ring_order(layout);
    EXPECT_TRUE(is_permutation_of_ranks(order));
    EXPECT_EQ(host_hops(layout, order).all, 8);
    EXPECT_EQ(cross_leaf_hops(layout, order), 2);
  }
}

TEST(RingOrder, EntersEachHostOnTheRailItLeftTheOneBefore) {
  for (int per_host : {2, 3, 4, 8})
    for (int hosts : {2, 3, 4, 5, 8, 9}) {
      if (per_host == 2 && hosts % 2 == 1) continue;  // no such ring exists: each host swaps the two rails
      SCOPED_TRACE(testing::Message() << hosts << " hosts of " << per_host);
      const Layout layout = Layout::blocks(hosts * per_host, per_host);
      const auto order = ring_order(layout);
      EXPECT_TRUE(is_permutation_of_ranks(order));
      EXPECT_EQ(host_hops(layout, order).all, hosts);
      EXPECT_EQ(host_hops(layout, order).off_rail, 0);
    }
}

TEST(RingOrder, LeavesTheRailOnceWhereTwoRailsMeetAnOddNumberOfHosts) {
  const Layout layout = Layout::blocks(10, 2);
  EXPECT_EQ(host_hops(layout, ring_order(layout)).off_rail, 1);
}

TEST(RingOrder, VisitsEveryRankOfUnequalHosts) {
  for (const Layout& layout : {Layout{{0, 0, 0, 1, 2, 2}, {}}, Layout{{0, 1, 1, 1}, {}}, Layout::blocks(13, 4)}) {
    const auto order = ring_order(layout);
    EXPECT_TRUE(is_permutation_of_ranks(order));
    EXPECT_EQ(host_hops(layout, order).all, layout.hosts());
  }
}

TEST(LayoutValidation, NamesWhatIsWrong) {
  EXPECT_EQ(Layout{}.validate().error().message, "the layout has no ranks");
  EXPECT_EQ((Layout{{0, 7}, {}}).validate().error().message, "rank 1 sits on host 7, expected 0 to 1");
  EXPECT_EQ((Layout{{0, 2, 2}, {}}).validate().error().message, "host 1 has no ranks");
  EXPECT_EQ((Layout{{0, 1}, {0}}).validate().error().message, "leaf_of_host has 1 entries, expected one per host: 2");
  EXPECT_TRUE((Layout{{1, 0}, {3, 3}}).validate());
}

}  // namespace
}  // namespace tutti
