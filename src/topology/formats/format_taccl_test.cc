#include "topology/formats/format_taccl.hpp"

#include <gtest/gtest.h>

#include "documents/text_file.hpp"

namespace tutti {
namespace {

const std::string kExamples = TUTTI_EXAMPLES;

std::string example(const std::string& path) {
  const auto text = read_text(kExamples + "/" + path);
  EXPECT_TRUE(text) << path;
  return text.value_or("");
}

NodeProfile profile(const std::string& name) {
  const auto read = profile_from_taccl(example("topologies/taccl/topo-" + name + ".json"));
  EXPECT_TRUE(read) << name << ": " << read.error().message;
  return read.value_or(NodeProfile());
}

Sketch sketch(const std::string& name) {
  const auto read = sketch_from_taccl(example("sketches/" + name + ".json"));
  EXPECT_TRUE(read) << name << ": " << read.error().message;
  return read.value_or(Sketch());
}

SketchedTopology combined(const std::string& topology, const std::string& name) {
  auto result = apply_sketch(profile(topology), sketch(name));
  EXPECT_TRUE(result) << topology << " " << name << ": " << result.error().message;
  return result ? std::move(*result) : SketchedTopology();
}

std::string sketch_error(const std::string& text) {
  const auto read = sketch_from_taccl(text);
  return read ? "" : read.error().message;
}

/// The bandwidth of a link that takes so long for a megabyte, in whole bytes per second.
Rational whole_megabyte_in(std::int64_t microseconds) { return (std::int64_t{1} << 20) * 1'000'000 / microseconds; }

TEST(TacclTopology, IsReadInSecondsAndBytes) {
  const NodeProfile ndv2 = profile("ndv2-1MB");
  EXPECT_EQ(ndv2.gpus, 8);
  EXPECT_EQ(ndv2.alpha, Rational(3, 10'000'000));
  EXPECT_EQ(ndv2.bandwidth[0][1], whole_megabyte_in(23)) << "a double NVLink";
  EXPECT_EQ(ndv2.bandwidth[0][2], whole_megabyte_in(46)) << "a single one";
  EXPECT_TRUE(ndv2.bandwidth[0][5].is_zero());
  // The same machine, profiled with chunks of another size and times in another unit.
  const NodeProfile small = profile("ndv2-1KB");
  EXPECT_EQ(small.alpha, ndv2.alpha);
  EXPECT_NEAR(small.bandwidth[0][1].value() / ndv2.bandwidth[0][1].value(), 1.0, 0.05);
}

TEST(TacclTopology, WithoutUnitsCountsMicrosecondsForAMebibyte) {
  const auto bare = profile_from_taccl(
      R"({"name": "x", "gpus_per_node": 2, "nics_per_node": 1, "alpha": 0.3, "node_betas_list": [8],
          "node_invbws_list": [8], "remote_alpha": 2.6, "remote_beta": 105, "remote_invbw": 107})");
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_EQ(bare->bandwidth[1][0], Rational(1 << 20) / Rational(8, 1'000'000));
}

TEST(TacclTopology, OfItsOwnLinksIsReadFromMatrices) {
  const auto custom = profile_from_taccl(
      R"({"name": "x", "gpus_per_node": 2, "alpha": 1, "links": [[0, 2], [1, 0]], "betas": [[0, 4], [8, 0]]})");
  ASSERT_TRUE(custom) << custom.error().message;
  EXPECT_EQ(custom->bandwidth[1][0], Rational(1 << 20) / Rational(2, 1'000'000)) << "two links from 1 to 0";
  EXPECT_EQ(custom->bandwidth[0][1], Rational(1 << 20) / Rational(8, 1'000'000));
}

TEST(TacclTopology, SaysWhatIsWrong) {
  const auto why = [](const std::string& text) { return profile_from_taccl(text).error().message; };
  EXPECT_NE(why(R"({"gpus_per_node": 4, "alpha": 1, "node_betas_list": [1, 2]})").find("node_betas_list: has two"),
            std::string::npos);
  EXPECT_NE(why(R"({"gpus_per_node": 4, "alpha": 1, "node_betas_list": [0]})").find("node_betas_list[0]: is 0"),
            std::string::npos);
  EXPECT_NE(why(R"({"gpus_per_node": 2, "alpha": 1, "links": [[0, 1]], "betas": [[0, 1], [1, 0]]})")
                .find("links: has 1 rows for 2 GPUs"),
            std::string::npos);
  EXPECT_NE(why(R"({"gpus_per_node": 2, "alpha": "fast", "node_betas_list": [1]})").find("alpha: 'fast' is no number"),
            std::string::npos);
}

TEST(TacclSketches, AllCombineWithTheirTopologies) {
  for (const char* size : {"1KB", "32KB", "1MB"})
    for (const char* name :
         {"sk1-ndv2-n1", "sk-ndv2-n1-cUp6", "sk1-ndv2-n2", "sk1-ndv2-n4", "sk2-ndv2-n2", "sk2-ndv2-n4", "sk3-ndv2-n2"})
      EXPECT_EQ(combined(std::string("ndv2-") + size, name).topology.ranks(), 8 * sketch(name).nodes) << name;
  for (const char* size : {"1KB", "1MB"})
    for (const char* name : {"sk1-dgx2-n1", "sk-dgx2-n1", "sk1-dgx2-n2", "sk2-dgx2-n2"})
      EXPECT_EQ(combined(std::string("dgx2-") + size, name).topology.ranks(), 16 * sketch(name).nodes) << name;
}

TEST(TacclSketches, KeepEveryOption) {
  const SketchedTopology dgx2 = combined("dgx2-1MB", "sk1-dgx2-n2");
  EXPECT_EQ(dgx2.plan.policy, ConnectionPolicy::fewest);
  EXPECT_EQ(dgx2.plan.chunks, 2);
  EXPECT_TRUE(dgx2.plan.own_chunks_first);
  EXPECT_EQ(dgx2.plan.symmetries.size(), 2u);
  EXPECT_EQ(dgx2.plan.sender_of[0], 1);
  EXPECT_EQ(dgx2.plan.sender_of[17], 17);
  EXPECT_EQ(combined("dgx2-1MB", "sk2-dgx2-n2").plan.policy, ConnectionPolicy::most);
  EXPECT_EQ(combined("ndv2-1MB", "sk-ndv2-n1-cUp6").plan.chunks, 6);
  EXPECT_EQ(combined("ndv2-1MB", "sk1-ndv2-n2").plan.sender_of[3], -1);
}

TEST(TacclSketches, ShareTheNicsBandwidthAmongConnections) {
  const auto bandwidth_between_nodes = [](const SketchedTopology& machine) {
    Rational sum;
    for (const Link& link : machine.topology.links()) {
      const Vertex& from = machine.topology.vertex(link.from);
      if (from.node == 0 && machine.topology.vertex(link.to).node == 1) sum += link.capacity;
    }
    return sum;
  };
  const Rational nic = whole_megabyte_in(105);
  for (const char* name : {"sk1-ndv2-n2", "sk2-ndv2-n2", "sk3-ndv2-n2"})
    EXPECT_EQ(bandwidth_between_nodes(combined("ndv2-1MB", name)), nic) << name;
  EXPECT_EQ(bandwidth_between_nodes(combined("dgx2-1MB", "sk1-dgx2-n2")), nic * 8);
}

TEST(TacclSketches, OfManyNodesShareTheSendersPort) {
  const SketchedTopology machine = combined("ndv2-1MB", "sk1-ndv2-n4");
  int ports = 0;
  for (const Vertex& vertex : machine.topology.vertices()) ports += vertex.kind == VertexKind::nic ? 1 : 0;
  EXPECT_EQ(ports, 8) << "one out and one in on each of four nodes";
}

TEST(TacclSketches, WithPlanesMultiplyPorts) {
  Sketch two_planes = sketch("sk1-dgx2-n1");
  two_planes.switches.push_back(two_planes.switches.front());
  const auto machine = apply_sketch(profile("dgx2-1MB"), two_planes);
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->topology.link(0).capacity, profile("dgx2-1MB").bandwidth[0][1] * 2);
}

TEST(TacclSketches, TakeWhatTacclTripsOver) {
  EXPECT_EQ(sketch_error(R"({"nnodes": 1, "intranode_sketch": {"strategy": "minmax"}})"), "");
  EXPECT_EQ(sketch_error(R"({"nnodes": 1, "intranode_sketch": {"strategy": "none"}, "symmetry_offsets": []})"), "");
}

TEST(TacclSketches, SayWhatIsWrong) {
  const std::string none = R"("intranode_sketch": {"strategy": "none"})";
  EXPECT_EQ(sketch_error("{\"nnodes\": 2, " + none + "}"),
            "line 1: nnodes: 2 nodes, but no internode_sketch says how they are joined");
  EXPECT_NE(sketch_error(R"({"nnodes": 1, "intranode_sketch": {"strategy": "swich"}})")
                .find("intranode_sketch.strategy: 'swich' is no strategy"),
            std::string::npos);
  EXPECT_NE(sketch_error(R"({"nnodes": 1, "intranode_sketch": {"strategy": "switch", "switches": [[0, 1], [1, 2]]}})")
                .find("intranode_sketch.switches[1]: GPU 1 is around another switch"),
            std::string::npos);
  EXPECT_NE(sketch_error("{\"nnodes\": 2, " + none +
                         R"(, "internode_sketch": {"strategy": "relay", "internode_conn": {"0": [1]},
                              "gpus_to_sender_rev_map": {"2": [0]}}})")
                .find("GPU 2 is a sender here, but internode_conn gives it no receiver"),
            std::string::npos);
  EXPECT_NE(sketch_error("{\"nnodes\": 1, \"nodes\": 2, " + none + "}").find("nodes: unknown key"), std::string::npos);
  EXPECT_NE(sketch_error("{\"nnodes\": 1,\n " + none + ",}").find("line 2"), std::string::npos);
}

TEST(TacclSketches, ThatDoNotFitTheTopologySayWhy) {
  Sketch odd = sketch("sk1-ndv2-n2");
  odd.symmetry_offsets = {{1, 8}};
  EXPECT_EQ(apply_sketch(profile("ndv2-1MB"), odd).error().message,
            "symmetry_offsets[0]: [1, 8] is no symmetry of this topology: a link is mapped to where none is");
  EXPECT_NE(apply_sketch(profile("ndv2-1MB"), sketch("sk1-dgx2-n2"))
                .error()
                .message.find("GPU 8 is out of range; the node has 8"),
            std::string::npos);
}

TEST(TacclSketches, ThatDoNotFitTheTopologyNameTheLine) {
  const auto why = [](const std::string& text) {
    const auto applied = apply_sketch(profile("ndv2-1MB"), sketch_from_taccl(text).value(), text);
    return applied ? "" : applied.error().message;
  };
  const auto joined = [](const std::string& connections) {
    return "{\"nnodes\": 2,\n\"intranode_sketch\": {\"strategy\": \"none\"},\n\"internode_sketch\": {\"strategy\": "
           "\"relay\",\n\"internode_conn\": {" +
           connections + "}},\n\"symmetry_offsets\": [[0, 8],\n[1, 8]]}";
  };
  EXPECT_EQ(why(joined("\"1\": [0],\n\"9\": [0]")),
            "line 5: internode_sketch.internode_conn.9: GPU 9 is out of range; the node has 8");
  EXPECT_EQ(why(joined("\"1\": [0]")),
            "line 6: symmetry_offsets[1]: [1, 8] is no symmetry of this topology: a link is mapped to where none is");
}

}  // namespace
}  // namespace tutti
