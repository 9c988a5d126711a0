#include "synthesis/trees/symmetric_trees.hpp"

#include <gtest/gtest.h>

#include "bound/bound.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

constexpr double kSeconds = 20;

Topology make(std::string_view spec) { return make_builtin(spec).value(); }

TEST(Translations, MoveEveryRankOfRegularMachinesToEveryOther) {
  for (const char* spec : {"dgx-a100:nodes=10", "dgx2:nodes=2", "torus2d:8x10", "torus3d:3x4x5", "hypercube:size=32",
                           "ring:size=7", "dgx-h100:nodes=8,fabric=leaf-spine"}) {
    const Topology topology = make(spec);
    EXPECT_EQ(find_translations(topology).group.order(), topology.ranks()) << spec;
  }
}

TEST(Translations, AreFewerWhereRanksDiffer) {
  EXPECT_EQ(find_translations(make("ndv2:nodes=10")).group.order(), 40);  // the cube mesh has two kinds of GPUs
  EXPECT_EQ(find_translations(make("mesh:4x5")).group.order(), 1);
}

TEST(Translations, AddDigitByDigit) {
  const Translations group({{1, 10, true}, {10, 2, false}, {20, 4, true}});
  EXPECT_EQ(group.order(), 40);
  EXPECT_EQ(group.translated(79, 21), 10 + 0);  // 9 + 1 and 3 + 1 both come round; the digit between stays
  EXPECT_EQ(group.representative_of(57), 10);
  EXPECT_EQ(group.translated(group.representative_of(57), group.offset_of(57)), 57);
  EXPECT_EQ(group.translated(group.translated(33, 45), group.opposite(45)), 33);
  EXPECT_EQ(group.all().size(), 40U);
}

class SymmetricTreesOf : public testing::TestWithParam<std::pair<const char*, double>> {};

TEST_P(SymmetricTreesOf, AreWholeAndAtTheBound) {
  const auto& [spec, most_ratio] = GetParam();
  const Topology topology = make(spec);
  Routes routes(topology);
  const auto trees = find_symmetric_trees(routes, {}, kSeconds);
  ASSERT_TRUE(trees) << trees.error().message;
  const PackedTrees packed = expand(routes, *trees);
  const Status status = check_schedule(packed.schedule);
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_NEAR(packed.rate, trees->rate, 1e-9 * packed.rate) << "links are loaded as their orbits are";
  const double limit = bound(topology, Collective::all_gather).value().for_large().rate.value();
  EXPECT_GE(packed.rate, limit * (1 - 1e-9));
  EXPECT_LE(packed.rate, limit * most_ratio);
}

INSTANTIATE_TEST_SUITE_P(Builtins, SymmetricTreesOf,
                         testing::Values(std::pair{"ndv2:nodes=10", 1.0001}, std::pair{"dgx-a100:nodes=2", 1.003},
                                         std::pair{"dgx-h100:nodes=16,fabric=leaf-spine,oversubscription=2", 1.003},
                                         std::pair{"dgx2:nodes=2", 1.07}, std::pair{"torus3d:3x4x5", 1.003},
                                         std::pair{"hypercube:size=64", 1.003}, std::pair{"ring:size=7", 1.0001},
                                         std::pair{"dgx-a100:nodes=64", 1.0001}, std::pair{"torus2d:24x24", 1.003}));

TEST(SymmetricTrees, Of16384RanksAreLowAndQuick) {
  for (const auto& [spec, height] : {std::pair{"dgx-a100:nodes=2048", 12}, std::pair{"torus2d:128x128", 130}}) {
    const Topology topology = make(spec);
    Routes routes(topology);
    const auto trees = find_symmetric_trees(routes, {}, kSeconds);
    ASSERT_TRUE(trees) << trees.error().message;
    EXPECT_LE(trees->height, height);
    EXPECT_LE(trees->loss, 0.003);
    EXPECT_EQ(trees->hops.size(), 16383U * static_cast<std::size_t>(trees->copies));
  }
}

TEST(SymmetricTrees, AreLeftToOthersWhereNothingIsMoved) {
  const Topology topology = make("mesh:4x4");
  Routes routes(topology);
  EXPECT_EQ(find_symmetric_trees(routes, {}, kSeconds).error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace tutti
