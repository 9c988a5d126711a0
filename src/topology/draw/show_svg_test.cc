#include "topology/draw/show_svg.hpp"

#include <gtest/gtest.h>

#include <pugixml.hpp>

#include "topology/builtin/builtin.hpp"
#include "topology/draw/picture.hpp"

namespace tutti {
namespace {

Topology make(std::string_view spec) { return make_builtin(spec).value(); }

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(TopologyPicture, IsWellFormedForEveryBuiltin) {
  for (const Builtin& builtin : builtin_topologies()) {
    const bool server = builtin.parameters.front().name == "nodes";
    const std::string svg = show_svg(make(std::string(builtin.name) + (server ? ":nodes=3" : "")));
    pugi::xml_document document;
    EXPECT_TRUE(document.load_string(svg.c_str())) << builtin.name;
    EXPECT_EQ(svg.find("nan"), std::string::npos) << builtin.name;
  }
}

TEST(TopologyPicture, ShowsEveryGpuOnceAndInsideItsNode) {
  for (const char* spec : {"ndv2:nodes=2", "dgx2:nodes=2", "mi250:nodes=2", "torus2d:6x8"}) {
    const Topology topology = make(spec);
    const TopologyPicture picture = lay_out(topology, 0);
    for (const int gpu : topology.gpus()) {
      const PictureSpot& spot = picture.vertices[static_cast<std::size_t>(gpu)];
      const PictureSpot& node = picture.nodes[static_cast<std::size_t>(topology.vertex(gpu).node)];
      EXPECT_TRUE(spot.shown && spot.left() >= node.left() && spot.right() <= node.right() &&
                  spot.top() >= node.top() && spot.bottom() <= node.bottom())
          << spec << " " << topology.vertex(gpu).name;
      for (const int other : topology.gpus()) {
        const PictureSpot& next = picture.vertices[static_cast<std::size_t>(other)];
        const bool apart = spot.right() <= next.left() || next.right() <= spot.left() || spot.bottom() <= next.top() ||
                           next.bottom() <= spot.top();
        EXPECT_TRUE(gpu == other || apart) << spec << " " << gpu << " on " << other;
      }
    }
  }
}

TEST(TopologyPicture, DrawsADuplexLinkOnce) { EXPECT_EQ(count(show_svg(make("ring:5")), "<path"), 5u); }

TEST(TopologyPicture, OfManyNodesSaysWhatIsLeftOut) {
  const std::string svg = show_svg(make("dgx-a100:nodes=100"));
  EXPECT_NE(svg.find("800 GPUs in 100 nodes"), std::string::npos);
  EXPECT_NE(svg.find("the first 8 nodes shown"), std::string::npos);
  EXPECT_LT(svg.size(), 400'000u);
}

TEST(TopologyText, CountsVerticesAndLinks) {
  EXPECT_EQ(show_text(make("ndv2:nodes=2")),
            "ndv2:nodes=2: 16 GPUs in 2 nodes, 4 NICs, 1 switch, 100 directed links\n"
            "       4 x ib         12.5 GB/s, 650 ns\n"
            "      32 x nvlink     25 GB/s, 700 ns\n"
            "      32 x nvlink     50 GB/s, 700 ns\n"
            "      32 x pcie       12.5 GB/s, 0 s\n");
}

}  // namespace
}  // namespace tutti
