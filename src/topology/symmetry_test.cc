#include "topology/symmetry.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

Topology make(std::string_view spec) { return make_builtin(spec).value(); }

std::vector<int> representatives(const Topology& topology) {
  const Symmetries found = find_symmetries(topology);
  for (const Permutation& generator : found.generators) EXPECT_TRUE(is_symmetry(topology, generator));
  return found.representatives();
}

Permutation rotation(int ranks, int by) {
  Permutation images(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) images[static_cast<std::size_t>(r)] = (r + by) % ranks;
  return images;
}

TEST(Symmetry, MakesAllRanksOfRegularTopologiesOne) {
  for (const char* spec : {"ring:7", "torus2d:5x8", "torus3d:3x4x5", "hypercube:64", "dgx2:nodes=3",
                           "dgx-a100:nodes=10", "dgx-h100:nodes=4", "dgx-h100:nodes=8,fabric=leaf-spine"})
    EXPECT_EQ(representatives(make(spec)), std::vector<int>{0}) << spec;
}

TEST(Symmetry, IsFoundBetweenServersWhoseGpusDiffer) {
  // In NDv2's cube mesh GPUs with equal bandwidth are not all alike.
  const auto one = representatives(make("ndv2"));
  for (const int nodes : {2, 4, 10})
    EXPECT_EQ(representatives(make("ndv2:nodes=" + std::to_string(nodes))), one) << nodes;
}

TEST(Symmetry, KeepsApartWhatDiffers) {
  EXPECT_EQ(representatives(make("mesh:3x3")), (std::vector<int>{0, 1, 4})) << "corner, edge, middle";
  // The last leaf has one server instead of two.
  EXPECT_EQ(representatives(make("dgx-h100:nodes=3,fabric=leaf-spine,nodes_per_leaf=2")), (std::vector<int>{0, 16}));
}

TEST(Symmetry, IsLostWithOneOddLink) {
  Topology topology = make("ring:6");
  EXPECT_EQ(representatives(topology).size(), 1u);
  topology.add_link({0, 1, 1, 0, "odd"});
  EXPECT_EQ(representatives(topology).size(), 6u);
}

TEST(Symmetry, OfSwitchSkillsCounts) {
  Topology topology("two boxes");
  for (int node = 0; node < 2; ++node) {
    const int crossbar = topology.add_switch("s" + std::to_string(node), node, {node == 0, false});
    for (int i = 0; i < 2; ++i)
      topology.add_duplex({topology.add_gpu("g" + std::to_string(2 * node + i), node), crossbar, 1, 0, ""});
  }
  topology.add_duplex({0, 3, 1, 0, ""});
  EXPECT_EQ(representatives(topology), (std::vector<int>{0, 2}));
}

TEST(Symmetry, IsVerifiedLinkByLink) {
  const Topology ring = make("ring:6");
  EXPECT_TRUE(is_symmetry(ring, rotation(6, 2)));
  EXPECT_FALSE(is_symmetry(ring, {1, 0, 2, 3, 4, 5}));
  EXPECT_FALSE(is_symmetry(ring, {0, 0, 2, 3, 4, 5}));
  EXPECT_FALSE(is_symmetry(ring, rotation(5, 1)));
}

TEST(Symmetry, OfRanksIsExtendedToSwitches) {
  const Topology topology = make("dgx-a100:nodes=4");
  const auto shifted = extend_to_symmetry(topology, rotation(32, 8));
  ASSERT_TRUE(shifted);
  EXPECT_TRUE(is_symmetry(topology, *shifted));
  EXPECT_FALSE(extend_to_symmetry(topology, rotation(32, 1))) << "a server's GPUs would be torn apart";
}

}  // namespace
}  // namespace tutti
