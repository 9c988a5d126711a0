#include "topology/translations.hpp"

#include <gtest/gtest.h>

#include "topology/builtin.hpp"
#include "topology/link_classes.hpp"

namespace tutti {
namespace {

Topology make(std::string_view spec) { return make_builtin(spec).value(); }

std::vector<int> radices_of(std::string_view spec) {
  const auto found = find_translations(make(spec));
  return found ? found->radices : std::vector<int>{};
}

TEST(Translations, AreTheCoordinatesOfRegularTopologies) {
  EXPECT_EQ(radices_of("ring:7"), (std::vector<int>{7}));
  EXPECT_EQ(radices_of("torus2d:8x10"), (std::vector<int>{10, 8}));
  EXPECT_EQ(radices_of("torus3d:3x4x5"), (std::vector<int>{5, 4, 3}));
  EXPECT_EQ(radices_of("hypercube:8"), (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(radices_of("dgx-h100:nodes=3"), (std::vector<int>{8, 3}));
}

TEST(Translations, AreNotFoundWhereRanksDiffer) {
  EXPECT_FALSE(find_translations(make("mesh:3x3")));
  EXPECT_FALSE(find_translations(make("ndv2:nodes=2")));
}

TEST(Translations, AreSymmetriesAndMoveRankZeroToEveryRank) {
  const Topology topology = make("torus2d:3x5");
  const Translations found = find_translations(topology).value();
  for (int shift = 0; shift < topology.ranks(); ++shift) {
    Permutation image;
    for (int rank = 0; rank < topology.ranks(); ++rank) image.push_back(found.moved(rank, shift));
    EXPECT_TRUE(is_symmetry(topology, image)) << shift;  // ranks are all the vertices there are
    EXPECT_EQ(image[0], shift);
  }
}

TEST(LinkClasses, OfATorusAreItsDirections) {
  const Topology topology = make("torus2d:3x5");
  const auto class_of = classes_of_links(topology, find_translations(topology)->generators);
  std::vector<int> sizes(4, 0);
  for (const int own : class_of) ++sizes.at(static_cast<std::size_t>(own));
  EXPECT_EQ(sizes, std::vector<int>(4, 15));
}

}  // namespace
}  // namespace tutti
