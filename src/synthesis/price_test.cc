#include "synthesis/price.hpp"

#include <gtest/gtest.h>

#include "algorithm/algorithm.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kBytes = 64 << 20;

/// A broadcast along a ring: the smaller the tile, the sooner the last rank begins.
class Pricing : public testing::Test {
 protected:
  Pricing() : topology_(*make_builtin("ring:8")), routes_(topology_) {
    Layout layout;
    for (int rank = 0; rank < topology_.ranks(); ++rank) layout.host_of.push_back(rank);
    program_ = *make_program("ring", Collective::broadcast, layout, {});
  }

  Price price_within(const PriceLimits& limits) {
    const auto simulator = Simulator::of(program_, routes_);
    return *price(*simulator, program_.shape, kBytes, limits);
  }

  Topology topology_;
  Routes routes_;
  Program program_;
};

TEST_F(Pricing, FindsATileThatKeepsTheBusiestLinkAtWork) {
  const Price found = price_within({});
  EXPECT_GT(found.tile, 0u);
  EXPECT_LT(found.seconds, found.busiest_link * 1.05);
  EXPECT_GE(found.seconds, found.busiest_link);
  EXPECT_EQ(found.link_busy.size(), topology_.links().size());
}

TEST_F(Pricing, EndsWhereTheTimeIsGoodEnough) {
  const Price best = price_within({}), whole = price_within({.most_pieces = 1});
  ASSERT_EQ(whole.tile, 0u) << "no smaller tile was allowed";
  const double enough = (best.seconds + whole.seconds) / 2;
  const Price found = price_within({.enough = enough});
  EXPECT_LE(found.seconds, enough);
  EXPECT_GT(found.tile, best.tile) << "a larger tile did, and no smaller one was looked for";
}

TEST_F(Pricing, LooksForNoBetterTileOfWhatCannotWin) {
  const Price best = price_within({});
  EXPECT_EQ(price_within({.hopeless = best.busiest_link}).tile, 0u);
  EXPECT_EQ(price_within({.hopeless = best.busiest_link * 1.01}).tile, best.tile);
}

}  // namespace
}  // namespace tutti
