#include "topology/routes.hpp"

#include <gtest/gtest.h>

#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

TEST(Routes, GoThroughSwitchesButNotThroughGpus) {
  const auto ndv2 = make_builtin("ndv2:nodes=2").value();
  Routes routes(ndv2);
  EXPECT_EQ(routes.count(0, 1), 1);
  EXPECT_EQ(routes.links(0, 1).size(), 1U) << "an NVLink";
  EXPECT_EQ(routes.links(0, 9).size(), 4U) << "PCIe, NIC, fabric, NIC, PCIe";
  EXPECT_EQ(routes.reached(0).size(), 15U);

  const auto torus = make_builtin("torus2d:size=4x4").value();
  Routes neighbours(torus);
  EXPECT_EQ(neighbours.count(0, 10), 0) << "only through other GPUs";
  EXPECT_TRUE(neighbours.links(0, 10).empty());
  EXPECT_EQ(neighbours.reached(0).size(), 4U);
}

TEST(Routes, LinksSideBySideAreTakenByChannel) {
  Topology topology("three wires");
  const int one = topology.add_gpu("one", 0);
  const int other = topology.add_gpu("other", 0);
  for (int i = 0; i < 3; ++i) topology.add_duplex({one, other, 1, 0, "wire"});
  Routes routes(topology);
  EXPECT_EQ(routes.count(0, 1), 3);
  EXPECT_EQ(routes.period(), 6) << "a multiple of 1, 2 and 3";
  EXPECT_EQ(routes.links(0, 1, 1), routes.links(0, 1, 4));
  EXPECT_NE(routes.links(0, 1, 1), routes.links(0, 1, 2));
}

}  // namespace
}  // namespace tutti
