#include "synthesis/trees/packed_trees.hpp"

#include <gtest/gtest.h>

#include "bound/bound.hpp"
#include "bound/random_topology_test_kit.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

constexpr double kSeconds = 20;

/// Time per byte of the packed trees over that of the bound; the schedule keeps its promises.
double ratio_to_bound(const Topology& topology, Collective collective, int root, int most_height = 1000) {
  const auto limit = bound(topology, collective, root);
  Routes routes(topology);
  const auto packed = pack_trees(routes, collective, {.root = root}, kSeconds);
  if (!packed) {
    ADD_FAILURE() << packed.error().message;
    return 0;
  }
  const Status status = check_schedule(packed->schedule);
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_LE(packed->height, most_height) << name_of(collective);
  return packed->rate / limit->for_large().rate.value();
}

struct Case {
  const char* spec;
  double most_ratio;
  int gather_height, broadcast_height;
};

class PackedTreesOfBuiltins : public testing::TestWithParam<Case> {};

TEST_P(PackedTreesOfBuiltins, MeetTheBoundAndStayLow) {
  const auto& [spec, most_ratio, gather_height, broadcast_height] = GetParam();
  const Topology topology = make_builtin(spec).value();
  EXPECT_LE(ratio_to_bound(topology, Collective::all_gather, 0, gather_height), most_ratio);
  for (const int root : {0, topology.ranks() - 3})
    EXPECT_LE(ratio_to_bound(topology, Collective::broadcast, root, broadcast_height), most_ratio);
}

INSTANTIATE_TEST_SUITE_P(Eighty, PackedTreesOfBuiltins,
                         testing::Values(Case{"ndv2:nodes=10", 1.0001, 4, 14}, Case{"dgx-a100:nodes=10", 1.0001, 3, 6},
                                         Case{"torus2d:8x10", 1.0001, 10, 20}));
INSTANTIATE_TEST_SUITE_P(Small, PackedTreesOfBuiltins,
                         testing::Values(Case{"ndv2:nodes=2", 1.0001, 4, 5}, Case{"ndv2:nodes=4", 1.0001, 5, 7},
                                         Case{"dgx-a100:nodes=2", 1.002, 3, 5}, Case{"dgx-h100:nodes=4", 1.003, 3, 7},
                                         Case{"mi250:nodes=2", 1.005, 12, 22}, Case{"hypercube:size=16", 1.0001, 5, 7},
                                         Case{"mesh:4x4", 1.0001, 7, 8}, Case{"ring:size=8", 1.0001, 5, 7}));

// Two GPUs of a DGX2 share a NIC, each over a path as fast as the NIC, so the cuts allow both of them what only one can
// have: no schedule takes less than (32 * 31 blocks) / (32 * 125 GB/s + 16 * 12.5 GB/s), 4.8 % more than the bound.
TEST(PackedTrees, AreAsGoodAsTheSharedNicsOfDgx2Allow) {
  const double ratio = ratio_to_bound(make_builtin("dgx2:nodes=2").value(), Collective::all_gather, 0);
  EXPECT_GE(ratio, 1.0476);
  EXPECT_LE(ratio, 1.05);
}

TEST(PackedTrees, BroadcastAmongAThousandRanks) {
  EXPECT_LE(ratio_to_bound(make_builtin("dgx-a100:nodes=128").value(), Collective::broadcast, 5, 10), 1.0001);
  EXPECT_LE(ratio_to_bound(make_builtin("torus2d:32x32").value(), Collective::broadcast, 77, 70), 1.0001);
}

TEST(PackedTrees, OfRandomGraphsWithoutSwitchesAreNearTheBound) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const int gpus = 2 + static_cast<int>(random() % 9);
    const Topology topology = random_topology(random, gpus, 0);
    for (const Collective collective : {Collective::all_gather, Collective::broadcast}) {
      const double ratio = ratio_to_bound(topology, collective, static_cast<int>(seed) % gpus);
      EXPECT_GE(ratio, 1 - 1e-9);
      EXPECT_LE(ratio, 1.06) << name_of(collective);
    }
  }
}

TEST(PackedTrees, OfRandomGraphsWithSwitchesAreValid) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const int gpus = 2 + static_cast<int>(random() % 6);
    const Topology topology = random_topology(random, gpus, 1 + static_cast<int>(random() % 4));
    for (const Collective collective : {Collective::all_gather, Collective::broadcast})
      EXPECT_GE(ratio_to_bound(topology, collective, static_cast<int>(seed) % gpus), 1 - 1e-9);
  }
}

TEST(PackedTrees, OfOneRankMoveNothing) {
  Topology topology("one");
  topology.add_gpu("g0", 0);
  Routes routes(topology);
  const auto packed = pack_trees(routes, Collective::all_gather, {}, kSeconds);
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_TRUE(packed->schedule.transfers.empty());
}

TEST(PackedTrees, RefuseWhatTheyCannotDo) {
  const Topology topology = make_builtin("ring:size=4").value();
  Routes routes(topology);
  EXPECT_EQ(pack_trees(routes, Collective::all_to_all, {}, kSeconds).error().code, ErrorCode::unsupported);
  EXPECT_EQ(pack_trees(routes, Collective::broadcast, {.root = 4}, kSeconds).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pack_trees(routes, Collective::all_gather, {}, 0).error().code, ErrorCode::timed_out);
}

}  // namespace
}  // namespace tutti
