#include "simulation/references.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "program/check/check.hpp"
#include "simulation/channels.hpp"
#include "simulation/simulate.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

constexpr Collective kAll[] = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                               Collective::broadcast,  Collective::reduce,     Collective::all_to_all};

std::set<std::string> names_of(const std::vector<Reference>& references) {
  std::set<std::string> names;
  for (const Reference& one : references) names.insert(one.name);
  return names;
}

const Reference& named(const std::vector<Reference>& references, const std::string& name) {
  const auto found =
      std::find_if(references.begin(), references.end(), [&](const Reference& one) { return one.name == name; });
  EXPECT_NE(found, references.end()) << name;
  return *found;
}

double gigabytes_per_second(Routes& routes, Collective collective, const std::string& name) {
  const auto references = reference_programs(routes, collective);
  const Reference& one = named(references, name);
  constexpr std::uint64_t kBytes = 1 << 30;
  return kBytes / simulate(one.program, routes, {.bytes = kBytes, .tile = one.program.tile}).value().seconds / 1e9;
}

class ReferencesOn : public testing::TestWithParam<const char*> {};

TEST_P(ReferencesOn, AreRightPrograms) {
  const Topology topology = make_builtin(GetParam()).value();
  Routes routes(topology);
  for (const Collective collective : kAll)
    for (const Reference& one : reference_programs(routes, collective, topology.ranks() - 1)) {
      const CheckReport report = check(one.program);
      EXPECT_TRUE(report.ok()) << one.name << " " << name_of(collective) << ": " << report.violation->to_string();
    }
}

INSTANTIATE_TEST_SUITE_P(Builtins, ReferencesOn,
                         testing::Values("ndv2", "ndv2:nodes=2", "ndv2:nodes=3", "dgx2:nodes=2", "dgx-a100",
                                         "dgx-a100:nodes=2", "dgx-a100:nodes=3", "dgx-h100:nodes=2", "mi250:nodes=2",
                                         "torus2d:4x4", "ring:8", "hypercube:8"));

TEST(References, AreWhatNcclRunsForEachCollective) {
  const Topology topology = make_builtin("ndv2:nodes=2").value();
  Routes routes(topology);
  const std::set<std::string> ring_only = {"nccl_ring", "ring", "recursive_doubling"};
  EXPECT_EQ(names_of(reference_programs(routes, Collective::all_gather)), ring_only);
  EXPECT_EQ(names_of(reference_programs(routes, Collective::all_reduce)),
            (std::set<std::string>{"nccl_ring", "nccl_tree", "ring", "double_tree", "recursive_doubling"}));
  EXPECT_EQ(names_of(reference_programs(routes, Collective::all_to_all)), std::set<std::string>{"nccl_direct"});
}

TEST(References, LeaveOutWhatHasNoRoute) {
  const Topology topology = make_builtin("torus2d:4x4").value();
  Routes routes(topology);
  EXPECT_EQ(names_of(reference_programs(routes, Collective::all_gather)), std::set<std::string>{"nccl_ring"});
  EXPECT_TRUE(reference_programs(routes, Collective::all_to_all).empty());
  Topology alone("alone");
  alone.add_gpu("g", 0);
  Routes nowhere(alone);
  EXPECT_TRUE(reference_programs(nowhere, Collective::all_gather).empty());
}

/// How often each direct link is used by rings.
std::map<int, int> uses_of(Routes& routes, const std::vector<simulation::ReferenceChannel>& channels) {
  std::map<int, int> uses;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const auto& ring = channels[c].ring;
    for (std::size_t i = 0; i < ring.size(); ++i)
      if (const auto links = routes.links(ring[i], ring[(i + 1) % ring.size()], static_cast<int>(c)); links.size() == 1)
        ++uses[links[0]];
  }
  return uses;
}

TEST(Channels, OfACubeMeshUseEveryNvLinkOnce) {
  const Topology topology = make_builtin("ndv2").value();
  Routes routes(topology);
  const auto channels = simulation::find_channels(routes);
  EXPECT_EQ(channels.size(), 6U) << "each GPU has six NVLinks";
  for (const auto& [link, uses] : uses_of(routes, channels))
    EXPECT_EQ(uses * 25e9, topology.link(link).capacity.value()) << topology.describe(topology.link(link));
}

TEST(Channels, OfATorusShareNoLink) {
  const Topology topology = make_builtin("torus2d:8x10").value();
  Routes routes(topology);
  const auto channels = simulation::find_channels(routes);
  EXPECT_GE(channels.size(), 2U);
  for (const auto& [link, uses] : uses_of(routes, channels)) EXPECT_EQ(uses, 1);
}

TEST(Channels, GoInAndOutOfANodeThroughTheirOwnNic) {
  const Topology topology = make_builtin("dgx2:nodes=2").value();
  Routes routes(topology);
  const auto channels = simulation::find_channels(routes);
  ASSERT_EQ(channels.size(), 8U);
  for (std::size_t c = 0; c < channels.size(); ++c) {
    EXPECT_EQ(channels[c].ring[0] / 2, static_cast<int>(c));
    EXPECT_EQ(channels[c].ring[15] / 2, static_cast<int>(c));
    EXPECT_EQ(channels[c].ring[16], channels[c].ring[0] + 16);
  }
}

TEST(Channels, StayOnTheirRailsWhereNicsReachOnlyTheirLike) {
  const Topology topology = make_builtin("dgx-h100:nodes=4").value();
  Routes routes(topology);
  const auto channels = simulation::find_channels(routes);
  ASSERT_EQ(channels.size(), 8U);
  for (const auto& channel : channels)
    for (std::size_t i = 7; i < 32; i += 8) EXPECT_EQ(channel.ring[i] % 8, channel.ring[(i + 1) % 32] % 8);
}

TEST(References, OfRingsReachWhatTheirLinksAllow) {
  // Each of N - 1 rounds takes a block over the slowest part of the ring: algorithm bandwidth is that times N / (N -
  // 1).
  const Topology cube = make_builtin("ndv2").value();
  Routes in_cube(cube);
  EXPECT_NEAR(gigabytes_per_second(in_cube, Collective::all_gather, "nccl_ring"), 150.0 * 8 / 7, 3);
  const Topology two = make_builtin("ndv2:nodes=2").value();
  Routes in_two(two);
  EXPECT_NEAR(gigabytes_per_second(in_two, Collective::all_gather, "nccl_ring"), 12.5 * 16 / 15, 0.2);
  EXPECT_NEAR(gigabytes_per_second(in_two, Collective::all_reduce, "nccl_ring"), 12.5 * 16 / 30, 0.1);
  const Topology switched = make_builtin("dgx2:nodes=2").value();
  Routes in_switched(switched);
  EXPECT_NEAR(gigabytes_per_second(in_switched, Collective::all_gather, "nccl_ring"), 100.0 * 32 / 31, 2);
}

}  // namespace
}  // namespace tutti
