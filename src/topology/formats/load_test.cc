#include "topology/formats/load.hpp"

#include <gtest/gtest.h>

#include "topology/builtin/builtin.hpp"
#include "topology/formats/format_json.hpp"

namespace tutti {
namespace {

TEST(Loading, TellsTheFormatByTheText) {
  const std::string native = topology_to_json(make_builtin("ring:4").value());
  EXPECT_EQ(parse_topology(native).value().ranks(), 4);
  EXPECT_EQ(parse_topology(R"({"gpus_per_node": 3, "alpha": 1, "node_betas_list": [2]})").value().ranks(), 3);
  EXPECT_EQ(parse_topology("\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU1\tNV1\tX\n").value().ranks(), 2);
  EXPECT_EQ(parse_topology("<system><cpu><pci busid=\"1\"><gpu dev=\"0\"/></pci></cpu></system>").value().ranks(), 1);
}

TEST(Loading, TakesFilesAndBuiltins) {
  EXPECT_EQ(load_topology(std::string(TUTTI_EXAMPLES) + "/topologies/taccl/topo-ndv2-1MB.json").value().ranks(), 8);
  EXPECT_EQ(load_topology("ndv2", 3).value().ranks(), 24);
  EXPECT_EQ(load_topology("ndv2:nodes=2").value().ranks(), 16);
}

TEST(Loading, SaysWhatItCannotFind) {
  EXPECT_EQ(load_topology("no-such.json").error().message,
            "'no-such.json' is neither a file nor a built-in topology; `tutti topo list` shows those");
  EXPECT_NE(parse_topology(topology_to_json(make_builtin("ring:4").value()), 2).error().message.find("2 nodes"),
            std::string::npos);
  const std::string sketch = std::string(TUTTI_EXAMPLES) + "/sketches/sk1-ndv2-n2.json";
  EXPECT_EQ(load_topology(sketch).error().message.rfind(sketch + ": ", 0), 0u) << "a sketch is no topology";
}

}  // namespace
}  // namespace tutti
