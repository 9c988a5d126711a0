#include "bound/bound.hpp"

#include <gtest/gtest.h>

#include "bound/check_certificate.hpp"
#include "bound/random_topology_test_kit.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

constexpr double kGigabyte = 1e9;

Topology make(std::string_view spec) { return make_builtin(spec).value(); }

/// Every certificate passes the judge.
Bound checked(const Topology& topology, Collective collective, int root = 0, BoundOptions options = {}) {
  const auto found = bound(topology, collective, root, options);
  if (!found) {
    ADD_FAILURE() << name_of(collective) << ": " << found.error().message;
    return {};
  }
  for (const Certificate& certificate : found->certificates) {
    const Status status = check_certificate(topology, certificate);
    EXPECT_TRUE(status) << status.error().message << "\n" << certificate_to_json(certificate);
  }
  return *found;
}

/// Bytes of the vector per second, for large sizes.
double gigabytes_per_second(const Topology& topology, Collective collective, BoundOptions options = {}) {
  const Bound found = checked(topology, collective, 0, options);
  return found.certificates.empty() ? 0 : 1 / found.for_large().rate.value() / kGigabyte;
}

TEST(Bounds, AreThoseOfThePublishedTopologies) {
  EXPECT_NEAR(gigabytes_per_second(make("ndv2:nodes=2"), Collective::all_gather), 25.0, 1e-9);
  EXPECT_NEAR(gigabytes_per_second(make("ndv2:nodes=4"), Collective::all_gather), 50.0 / 3, 1e-9);
  EXPECT_NEAR(gigabytes_per_second(make("ndv2:nodes=2"), Collective::all_to_all), 3.125, 1e-5);
  EXPECT_NEAR(gigabytes_per_second(make("dgx-a100:nodes=2"), Collective::all_gather), 346.6666667, 1e-6);
  EXPECT_NEAR(gigabytes_per_second(make("dgx2:nodes=2"), Collective::all_to_all), 12.5, 1e-4);
}

/// TE-CCL's DGX2: an odd GPU's NIC leads straight to an even GPU of the other node, so no GPU has more than 125 GB/s
/// in.
Topology te_ccl_dgx2() {
  Topology topology("DGX2 of TE-CCL");
  for (int node = 0; node < 2; ++node) {
    const int crossbar = topology.add_switch("s" + std::to_string(node), node);
    for (int i = 0; i < 16; ++i) {
      const int gpu = topology.add_gpu("g" + std::to_string(16 * node + i), node);
      topology.add_duplex({gpu, crossbar, 125'000'000'000, Rational(175, 1'000'000'000), "nvlink"});
    }
  }
  for (int node = 0; node < 2; ++node)
    for (int i = 1; i < 16; i += 2)
      topology.add_link({topology.gpu(16 * node + i), topology.gpu(16 * (1 - node) + i - 1), 12'500'000'000,
                         Rational(26, 10'000'000), "ib"});
  return topology;
}

TEST(Bounds, OfTeCclsDgx2AreThoseItReaches) {
  EXPECT_NEAR(gigabytes_per_second(te_ccl_dgx2(), Collective::all_gather), 125.0 * 32 / 31, 1e-6);
  EXPECT_NEAR(gigabytes_per_second(te_ccl_dgx2(), Collective::all_to_all), 12.5, 1e-4);
}

TEST(Bounds, OfReduceScatterAreThoseOfAllGatherOnDuplexMachines) {
  for (const char* spec : {"ndv2:nodes=3", "dgx-a100:nodes=2", "torus2d:3x4", "mesh:2x3", "mi250:nodes=2"})
    EXPECT_EQ(checked(make(spec), Collective::reduce_scatter).for_large().rate,
              checked(make(spec), Collective::all_gather).for_large().rate)
        << spec;
}

TEST(Bounds, OfAllReduceKnowTheClassicalLimit) {
  // 2 (N - 1) / N of the vector through every GPU's ports.
  EXPECT_NEAR(gigabytes_per_second(make("ring:5"), Collective::all_reduce), 50.0 * 5 / 8, 1e-9);
  EXPECT_NEAR(gigabytes_per_second(make("dgx-a100"), Collective::all_reduce), 300.0 * 8 / 14, 1e-9);
  // Between servers it is counted by server: 2 (n - 1) / n through each server's NICs.
  EXPECT_NEAR(gigabytes_per_second(make("ndv2:nodes=4"), Collective::all_reduce), 12.5 * 4 / 6, 1e-9);
  // Leaves that are oversubscribed count as parties, too.
  EXPECT_LE(gigabytes_per_second(make("dgx-h100:nodes=4,fabric=leaf-spine,nodes_per_leaf=2,oversubscription=4"),
                                 Collective::all_reduce),
            200.0);
}

TEST(Bounds, OfAllReduceAllowForSwitchesThatReduce) {
  // The switch adds up and hands out: each GPU sends the vector once and receives it once.
  EXPECT_NEAR(gigabytes_per_second(make("dgx-h100"), Collective::all_reduce), 450.0, 1e-9);
}

TEST(Bounds, OfRootedCollectivesSeeTheRootsPort) {
  const Topology star = make("dgx-a100");
  EXPECT_NEAR(gigabytes_per_second(star, Collective::broadcast), 300, 1e-9);
  EXPECT_NEAR(gigabytes_per_second(star, Collective::reduce), 300, 1e-9);
  EXPECT_NEAR(gigabytes_per_second(star, Collective::gather), 300.0 * 8 / 7, 1e-9);
  EXPECT_NEAR(gigabytes_per_second(star, Collective::scatter), 300.0 * 8 / 7, 1e-9);
}

TEST(Bounds, OfSmallSizesAreTheWayToTheFarthestRank) {
  const Bound torus = checked(make("torus2d:8x8"), Collective::all_gather);
  EXPECT_NEAR(torus.seconds(0), 8 * 0.7e-6, 1e-12);
  const Bound ring = checked(make("ring:6"), Collective::broadcast, 2);
  EXPECT_NEAR(ring.seconds(0), 3 * 0.7e-6, 1e-12);
  EXPECT_GT(torus.seconds(1e9), torus.for_large().rate.value() * 1e9);
}

TEST(Bounds, AreThoseOfAllCutsTriedOnRandomTopologies) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    const Topology topology = random_topology(random, 2 + int(seed % 5), int(seed % 4));
    const int root = int(seed) % topology.ranks();
    for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter, Collective::broadcast,
                                        Collective::reduce, Collective::gather, Collective::scatter})
      EXPECT_EQ(checked(topology, collective, root).for_large().rate,
                best_cut_by_trying_all(topology, collective, root))
          << "seed " << seed << ", " << name_of(collective);
  }
}

TEST(Bounds, OfAllReduceAreAtLeastThoseOfAllCuts) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const Topology topology = random_topology(random, 2 + int(seed % 5), int(seed % 4));
    EXPECT_GE(checked(topology, Collective::all_reduce).for_large().rate,
              best_cut_by_trying_all(topology, Collective::all_reduce, 0))
        << "seed " << seed;
  }
}

TEST(Bounds, OfAllToAllAreExactAndAtLeastThoseOfAllCuts) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const Topology topology = random_topology(random, 2 + int(seed % 5), int(seed % 3));
    const Bound found = checked(topology, Collective::all_to_all);
    const double rate = found.for_large().rate.value();
    EXPECT_GE(rate * (1 + 1e-5), best_cut_by_trying_all(topology, Collective::all_to_all, 0).value())
        << "seed " << seed;
    ASSERT_GT(found.rate_limit, 0) << "seed " << seed;
    EXPECT_LE(found.rate_limit / rate, 1 + 1e-5) << "seed " << seed;
    EXPECT_GE(found.rate_limit / rate, 1 - 1e-5) << "seed " << seed;
  }
}

TEST(Bounds, DoNotDependOnWhetherSymmetryIsUsed) {
  for (const char* spec :
       {"torus2d:4x5", "dgx-a100:nodes=3", "ndv2:nodes=2", "mesh:3x3", "dgx2:nodes=2", "hypercube:16"})
    for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all}) {
      const Topology topology = make(spec);
      BoundOptions plain;
      plain.use_symmetry = false;
      EXPECT_NEAR(gigabytes_per_second(topology, collective) / gigabytes_per_second(topology, collective, plain), 1.0,
                  2e-3)
          << spec << " " << name_of(collective);
    }
}

TEST(Bounds, ScaleToAThousandRanks) {
  // Times are told by the benchmark; here only that the way through symmetry and the way through all ranks agree.
  const Topology topology = make("dgx-a100:nodes=64");
  BoundOptions plain;
  plain.use_symmetry = false;
  EXPECT_EQ(checked(topology, Collective::all_gather).for_large().rate,
            checked(topology, Collective::all_gather, 0, plain).for_large().rate);
}

TEST(Bounds, CountInWiderNumbersWhereFiguresAreUneven) {
  // Measured figures with nothing in common: sums times ranks pass 64 bits.
  Topology topology("uneven");
  for (int i = 0; i < 6; ++i) topology.add_gpu("g" + std::to_string(i), 0);
  for (int i = 0; i < 6; ++i)
    topology.add_duplex({i, (i + 1) % 6, Rational(100'000'000'000'000'007 + i * 1'000'003), Rational(1, 1000), ""});
  EXPECT_EQ(checked(topology, Collective::all_gather).for_large().rate,
            best_cut_by_trying_all(topology, Collective::all_gather, 0));
}

TEST(Bounds, AreRefusedWhereThereIsNothingToBound) {
  EXPECT_FALSE(bound(make("ring:4"), Collective::barrier));
  EXPECT_FALSE(bound(make("ring:4"), Collective::broadcast, 4));
  Topology apart("apart");
  apart.add_gpu("a", 0);
  apart.add_gpu("b", 0);
  const auto found = bound(apart, Collective::all_gather);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("disconnected"), std::string::npos);
  Topology single("single");
  single.add_gpu("a", 0);
  EXPECT_EQ(bound(single, Collective::all_gather).value().seconds(1e9), 0.0);
}

}  // namespace
}  // namespace tutti
