#include "topology/topology.hpp"

#include <gtest/gtest.h>

#include "topology/number_set.hpp"

namespace tutti {
namespace {

/// Two nodes of two GPUs, each node around a switch; `joined`: with a link between the switches.
Topology two_boxes(bool joined) {
  Topology topology("two boxes");
  int switches[2];
  for (int node = 0; node < 2; ++node) {
    switches[node] = topology.add_switch("s" + std::to_string(node), node);
    for (const char* gpu : {"a", "b"}) {
      const int vertex = topology.add_gpu(gpu + std::to_string(node), node);
      topology.add_duplex({vertex, switches[node], 1000, Rational(1, 1000), "port"});
    }
  }
  if (joined) topology.add_duplex({switches[0], switches[1], 500, 0, "cable"});
  return topology;
}

std::string why_invalid(const Topology& topology) {
  const Status status = validate(topology);
  return status ? "" : status.error().message;
}

TEST(Topology, KnowsItsRanksAndNeighbours) {
  const Topology topology = two_boxes(true);
  EXPECT_EQ(topology.ranks(), 4);
  EXPECT_EQ(topology.nodes(), 2);
  EXPECT_EQ(topology.vertex(topology.gpu(2)).name, "a1");
  EXPECT_EQ(topology.vertex(topology.gpu(2)).rank, 2);
  EXPECT_EQ(topology.out_links(0).size(), 3u);
  EXPECT_EQ(topology.in_links(0).size(), 3u);
  EXPECT_EQ(topology.describe(topology.link(0)), "a0 -> s0 (port)");
  EXPECT_EQ(why_invalid(topology), "");
}

TEST(Topology, ReversedTurnsLinksAndSkills) {
  Topology topology("one way round");
  const int a = topology.add_gpu("a", 0), s = topology.add_switch("s", 0, {true, false});
  topology.add_link({a, s, 5, 0, ""});
  const Topology turned = topology.reversed();
  EXPECT_EQ(turned.link(0).from, s);
  EXPECT_EQ(turned.out_links(s), std::vector<int>{0});
  EXPECT_TRUE(turned.vertex(s).skills.reduces);
  EXPECT_FALSE(turned.vertex(s).skills.multicasts);
  EXPECT_EQ(turned.reversed(), topology);
}

TEST(Topology, ThatFallsApartSaysWhichGpusCannotReachWhich) {
  EXPECT_EQ(why_invalid(two_boxes(false)),
            "disconnected: no path of links leads from GPU 0 ('a0') to GPUs 2-3 ('a1' ...)");
  Topology one_way("one way");
  const int a = one_way.add_gpu("a", 0), b = one_way.add_gpu("b", 0);
  one_way.add_link({a, b, 1, 0, ""});
  EXPECT_EQ(why_invalid(one_way), "disconnected: no path of links leads to GPU 0 ('a') from GPU 1 ('b')");
}

TEST(Topology, WithALinkOfNothingSaysWhich) {
  Topology topology = two_boxes(true);
  topology.add_link({1, 2, 0, 0, "broken"});
  EXPECT_EQ(why_invalid(topology), "link a0 -> b0 (broken): its bandwidth is 0; where there is no link, leave it out");
}

TEST(Topology, WithLoopsSameNamesOrNoGpuIsRefused) {
  Topology loop = two_boxes(true);
  loop.add_link({1, 1, 1, 0, ""});
  EXPECT_NE(why_invalid(loop).find("leads to where it starts"), std::string::npos);
  Topology twice = two_boxes(true);
  twice.add_nic("a0", 0);
  EXPECT_EQ(why_invalid(twice), "two vertices are called 'a0'");
  EXPECT_EQ(why_invalid(Topology("empty")), "the topology has no GPU");
}

TEST(NumberSets, AreWrittenAndReadAsRanges) {
  const std::vector<int> numbers{0, 1, 2, 5, 7, 8};
  EXPECT_EQ(show_numbers(numbers), "0-2,5,7-8");
  EXPECT_EQ(parse_numbers("0-2,5,7-8", 9).value(), numbers);
  EXPECT_TRUE(parse_numbers("", 9).value().empty());
  for (const char* text : {"9", "1-", "2-1", "1,1", "3,2", "a", "1,", ",1", "-1", "1-3,2"})
    EXPECT_FALSE(parse_numbers(text, 9)) << text;
}

}  // namespace
}  // namespace tutti
