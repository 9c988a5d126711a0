#include "topology/formats/format_json.hpp"

#include <gtest/gtest.h>

#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

std::string document(const std::string& vertices, const std::string& links, const std::string& more = "") {
  return "{\"format\": \"tutti topology 1\"" + more + ", \"vertices\": [" + vertices + "], \"links\": [" + links + "]}";
}

const std::string kTwoGpus = R"({"gpu": "a", "node": 0}, {"gpu": "b", "node": 0})";

std::string why_not(const std::string& text) {
  const auto topology = topology_from_json(text);
  return topology ? "" : topology.error().message;
}

TEST(TopologyFile, RoundTripsEveryBuiltin) {
  for (const Builtin& builtin : builtin_topologies()) {
    const bool server = builtin.parameters.front().name == "nodes";
    const auto topology = make_builtin(std::string(builtin.name) + (server ? ":nodes=3" : ""));
    ASSERT_TRUE(topology);
    const auto read = topology_from_json(topology_to_json(*topology));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, *topology) << builtin.name;
  }
}

TEST(TopologyFile, TakesPlainNumbersInADeclaredUnit) {
  const auto topology =
      topology_from_json(document(kTwoGpus, R"({"from": "a", "to": "b", "bandwidth": 12.5, "latency": 0.7,
                                               "duplex": true})",
                                  R"(, "units": {"bandwidth": "GB/s", "latency": "us"})"));
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(topology->link(0).capacity, Rational(12'500'000'000));
  EXPECT_EQ(topology->link(1).latency, Rational(7, 10'000'000));
}

TEST(TopologyFile, NamesThePlaceOfEveryMistake) {
  const std::string link = R"({"from": "a", "to": "b", "bandwidth": "1 GB/s", "latency": "1 us"})";
  EXPECT_EQ(why_not(document(kTwoGpus, R"({"from": "a", "to": "c", "bandwidth": "1 GB/s", "latency": "1 us"})")),
            "line 1: links[0].to: 'c' names no vertex");
  EXPECT_EQ(why_not(document(kTwoGpus, link + R"(, {"from": "b", "to": "a", "bandwidth": 5, "latency": "1 us"})")),
            "line 1: links[1].bandwidth: 5 has no unit, and \"units\" gives none");
  EXPECT_NE(why_not(document(kTwoGpus, R"({"from": "a", "to": "b", "bandwidth": "1 Gbps", "latency": "1 us"})"))
                .find("links[0].bandwidth: '1 Gbps' has an unknown unit"),
            std::string::npos);
  EXPECT_EQ(why_not(document(kTwoGpus, R"({"from": "a", "to": "b", "bandwidth": "0 GB/s", "latency": "1 us"})")),
            "line 1: links[0].bandwidth: is 0; where there is no link, leave it out");
  EXPECT_EQ(why_not(document(kTwoGpus + R"(, {"gpu": "a"})", link)), "line 1: vertices[2].gpu: 'a' names two vertices");
  EXPECT_EQ(why_not(document(R"({"gpu": "a", "reduces": true})", "")),
            "line 1: vertices[0]: only a switch multicasts or reduces");
  EXPECT_EQ(why_not(document(R"({"node": 1})", "")),
            "line 1: vertices[0]: needs one of 'gpu', 'nic' or 'switch' with the vertex's name");
  EXPECT_EQ(why_not(document("\n{\"gpu\": \"a\"},\n{\"gpu\": \"b\"}", link)),
            "line 3: vertices[1]: disconnected: no path of links leads to GPU 0 ('a') from GPU 1 ('b')");
  EXPECT_EQ(why_not(document(kTwoGpus, link + ",\n" + R"({"from": "b", "to": "b", "bandwidth": "1 GB/s",
                                                        "latency": "1 us", "duplex": true})")),
            "line 2: links[1]: link b -> b: leads to where it starts");
  EXPECT_NE(why_not("{\n\"format\": }").find("line 2"), std::string::npos);
  EXPECT_NE(why_not(R"({"format": "tutti program 1"})").find("format: 'tutti program 1' is not"), std::string::npos);
}

}  // namespace
}  // namespace tutti
