#include "topology/builtin/builtin.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

Topology make(std::string_view spec) {
  const auto topology = make_builtin(spec);
  if (!topology) ADD_FAILURE() << topology.error().message;
  return topology.value_or(Topology());
}

std::string why_not(std::string_view spec) {
  const auto topology = make_builtin(spec);
  return topology ? "" : topology.error().message;
}

Rational capacity_out(const Topology& topology, int rank) {
  Rational sum;
  for (const int link : topology.out_links(topology.gpu(rank))) sum += topology.link(link).capacity;
  return sum;
}

Rational gigabytes(std::int64_t number) { return number * 1'000'000'000; }

TEST(Builtins, AllHaveStandardParametersThatMakeAValidTopology) {
  for (const Builtin& builtin : builtin_topologies()) {
    const Topology topology = make(builtin.name);
    EXPECT_GE(topology.ranks(), 8) << builtin.name;
    EXPECT_TRUE(validate(topology)) << builtin.name;
  }
}

TEST(Builtins, ServersComeInAnyNumber) {
  for (const auto& [name, gpus] : {std::pair("ndv2", 8), {"dgx2", 16}, {"dgx-a100", 8}, {"dgx-h100", 8}, {"mi250", 16}})
    for (const int nodes : {1, 2, 3, 10}) {
      const Topology topology = make(std::string(name) + ":nodes=" + std::to_string(nodes));
      EXPECT_EQ(topology.ranks(), gpus * nodes) << name;
      EXPECT_EQ(topology.nodes(), nodes) << name;
    }
}

TEST(Builtins, Ndv2HasSixNvlinksAGpu) {
  const Topology topology = make("ndv2");
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(capacity_out(topology, rank), gigabytes(150)) << rank;
}

TEST(Builtins, AServersGpusReachOneAnotherThroughNoNic) {
  // A NIC that several GPUs share is two vertices, each with traffic one way only.
  const Topology topology = make("ndv2:nodes=2");
  for (int v = 0; v < topology.vertex_count(); ++v) {
    if (topology.vertex(v).kind != VertexKind::nic) continue;
    const bool sends_to_gpus = topology.vertex(topology.link(topology.out_links(v)[0]).to).kind == VertexKind::gpu;
    for (const int link : topology.in_links(v))
      EXPECT_EQ(topology.vertex(topology.link(link).from).kind == VertexKind::gpu, !sends_to_gpus);
  }
}

TEST(Builtins, LeafSpineHasLessBandwidthUpThanDown) {
  const Topology topology = make("dgx-h100:nodes=4,fabric=leaf-spine,oversubscription=2,nodes_per_leaf=2");
  int spine_links = 0;
  for (const Link& link : topology.links())
    if (topology.vertex(link.to).name == "spine") {
      EXPECT_EQ(link.capacity, gigabytes(8 * 50 * 2 / 2));
      ++spine_links;
    }
  EXPECT_EQ(spine_links, 2);
}

TEST(Builtins, RailsJoinNicsOfTheSameNumber) {
  const Topology topology = make("dgx-h100 --nodes 3");
  for (const Link& link : topology.links())
    if (topology.vertex(link.to).name == "rail5") {
      EXPECT_EQ(topology.vertex(link.from).name.substr(2), ".nic5");
    }
}

TEST(Builtins, GridsHaveTheDegreeOfTheirDimensions) {
  for (const auto& [spec, degree] :
       {std::pair("torus2d:8x10", 4), {"torus3d:3x4x5", 6}, {"hypercube:16", 4}, {"ring:5", 2}}) {
    const Topology topology = make(spec);
    for (const int gpu : topology.gpus()) EXPECT_EQ(topology.out_links(gpu).size(), std::size_t(degree)) << spec;
  }
  const Topology mesh = make("mesh:3x3");
  EXPECT_EQ(mesh.out_links(0).size(), 2u);
  EXPECT_EQ(mesh.out_links(4).size(), 4u);
  EXPECT_EQ(make("torus2d:2x3").out_links(0).size(), 3u) << "a dimension of two has one link";
}

TEST(Builtins, TakeFiguresInEitherForm) {
  for (const char* spec :
       {"ring:4,bandwidth=200 Gb/s,latency=1.5 us", "ring 4 --bandwidth 25 GB/s --latency 1500 ns"}) {
    const Topology topology = make(spec);
    EXPECT_EQ(topology.link(0).capacity, gigabytes(25)) << spec;
    EXPECT_EQ(topology.link(0).latency, Rational(3, 2'000'000)) << spec;
  }
}

TEST(Builtins, SayWhatIsWrongWithASpec) {
  EXPECT_NE(why_not("dgx3").find("'dgx3' names no built-in topology; there are ndv2"), std::string::npos);
  EXPECT_NE(why_not("ndv2:size=2").find("'ndv2' has no parameter 'size'; it has nodes"), std::string::npos);
  EXPECT_NE(why_not("ndv2:nodes=0").find("nodes: '0' is out of place; expected a whole number from 1"),
            std::string::npos);
  EXPECT_NE(why_not("ndv2 --nodes").find("'nodes' has no value"), std::string::npos);
  EXPECT_NE(why_not("torus2d:4x4x4").find("size: '4x4x4'"), std::string::npos);
  EXPECT_NE(why_not("torus2d:1000x1000").find("at most"), std::string::npos);
  EXPECT_NE(why_not("hypercube:12").find("a power of two"), std::string::npos);
  EXPECT_NE(why_not("dgx-h100:nodes=2,fabric=tree").find("expected rail or leaf-spine"), std::string::npos);
  EXPECT_NE(why_not("dgx-h100:nodes=2,fabric=leaf-spine,oversubscription=0.5").find("1 or more"), std::string::npos);
  EXPECT_NE(why_not("ring:4,bandwidth=fast").find("bandwidth: 'fast' has no unit"), std::string::npos);
}

}  // namespace
}  // namespace tutti
