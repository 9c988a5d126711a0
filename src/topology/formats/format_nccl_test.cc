#include "topology/formats/format_nccl.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

// Two GPUs with NVLinks between them, a NIC beside each, as a cloud machine shows them.
const char* const kPair = R"(<system version="1">
  <cpu numaid="0" affinity="00ffffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="1" gdr="1">
          <nvlink target="0000:21:00.0" count="12" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ff000000" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:21:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="1" sm="80" rank="0" gdr="1">
        <nvlink target="0000:11:00.0" count="12" tclass="0x030200"/>
      </gpu>
    </pci>
    <nic><net name="eth0" dev="1" speed="100000" port="0" guid="0x2" maxconn="65536" gdr="0"/></nic>
  </cpu>
</system>
)";

constexpr std::int64_t kGigabyte = 1'000'000'000;

Topology read(std::string_view text, int nodes) {
  const auto topology = topology_from_nccl_xml(text, nodes);
  if (!topology) ADD_FAILURE() << topology.error().message;
  return topology.value_or(Topology());
}

const Link* link_between(const Topology& topology, std::string_view from, std::string_view to) {
  for (const Link& link : topology.links())
    if (topology.vertex(link.from).name == from && topology.vertex(link.to).name == to) return &link;
  return nullptr;
}

TEST(NcclTopology, OfOneHostIsItsNvlinks) {
  const Topology topology = read(kPair, 1);
  EXPECT_EQ(topology.ranks(), 2);
  EXPECT_EQ(topology.link_count(), 2);
  EXPECT_EQ(topology.link(0).capacity, Rational(12 * 20 * kGigabyte));
}

TEST(NcclTopology, OfSeveralHostsGoesByPcieToTheNics) {
  const Topology topology = read(kPair, 3);
  EXPECT_EQ(topology.ranks(), 6);
  // Rank 1 sits at the bridge; PCIe 4 x16 there, PCIe 5 behind it.
  const Link* gpu = link_between(topology, "n0.gpu1", "n0.pci-0000:10:00.0.out");
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(gpu->capacity, Rational(24 * kGigabyte));
  const Link* up = link_between(topology, "n0.pci-0000:10:00.0.out", "n0.cpu0.out");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->capacity, Rational(48 * kGigabyte));
  const Link* nic = link_between(topology, "n2.nic0.out", "network");
  ASSERT_NE(nic, nullptr);
  EXPECT_EQ(nic->capacity, Rational(25 * kGigabyte));
  EXPECT_EQ(link_between(topology, "n0.nic0.out", "n0.gpu1"), nullptr);
}

TEST(NcclTopology, WithoutNvlinksGoesThroughThePcieTree) {
  std::string text = kPair;
  for (std::size_t at; (at = text.find("<nvlink")) != std::string::npos;) text.erase(at, text.find("/>", at) + 2 - at);
  const Topology topology = read(text, 1);
  EXPECT_NE(link_between(topology, "n0.cpu1", "n0.cpu0"), nullptr);
  EXPECT_EQ(link_between(topology, "n0.cpu1", "n0.cpu0")->capacity, Rational(16 * kGigabyte));
  EXPECT_NE(link_between(topology, "n0.gpu0", "n0.cpu1"), nullptr);
}

TEST(NcclTopology, AddsUpLinksIntoNvswitches) {
  std::string gpus;
  for (int i = 0; i < 4; ++i)
    gpus += "<pci busid=\"0000:0" + std::to_string(i) +
            ":00.0\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" + std::to_string(i) +
            "\" sm=\"90\"><nvlink target=\"0000:d0:00.0\" count=\"5\" tclass=\"0x068000\"/>" +
            "<nvlink target=\"0000:d1:00.0\" count=\"4\" tclass=\"0x068000\"/></gpu></pci>";
  const Topology topology = read("<system version=\"1\"><cpu numaid=\"0\">" + gpus + "</cpu></system>", 1);
  EXPECT_EQ(topology.ranks(), 4);
  const Link* port = link_between(topology, "n0.gpu2", "n0.nvswitch");
  ASSERT_NE(port, nullptr);
  EXPECT_EQ(port->capacity, Rational(206, 10) * 9 * kGigabyte);
  EXPECT_TRUE(topology.vertex(port->to).skills.reduces);
}

TEST(NcclTopology, NamesTheLineOfAMistake) {
  const auto why = [](std::string_view text, int nodes = 1) {
    const auto topology = topology_from_nccl_xml(text, nodes);
    return topology ? "" : topology.error().message;
  };
  std::string text = kPair;
  text.replace(text.find("0000:21:00.0\" count"), 12, "0000:99:00.0");
  EXPECT_EQ(why(text), "line 6: <nvlink>: target=\"0000:99:00.0\" is no GPU of this file");
  EXPECT_NE(why("<system>\n<cpu>\n</system>").find("line 3"), std::string::npos);
  EXPECT_NE(why("<graphs/>").find("no <system>"), std::string::npos);
  EXPECT_NE(why("<system><cpu/></system>").find("no <gpu>"), std::string::npos);
  EXPECT_NE(why(kPair, 0).find("0 nodes"), std::string::npos);
}

// Of a server with eight V100: a cube mesh of NVLinks, two NICs.
const char* const kCubeMesh = R"(	GPU0	GPU1	GPU2	GPU3	mlx5_0	mlx5_1	CPU Affinity	NUMA Affinity
GPU0	X	NV1	NV2	NV1	NODE	SYS	0-23,48-71	0
GPU1	NV1	X	NV1	SYS	NODE	SYS	0-23,48-71	0
GPU2	NV2	NV1	X	NV2	SYS	PIX	24-47	1
GPU3	NV1	SYS	NV2	X	SYS	PIX	24-47	1
mlx5_0	NODE	NODE	SYS	SYS	X	SYS
mlx5_1	SYS	SYS	PIX	PIX	SYS	X

Legend:

  X    = Self
)";

TEST(SmiMatrix, CountsNvlinks) {
  const auto topology = topology_from_smi_matrix(kCubeMesh);
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(topology->ranks(), 4);
  EXPECT_EQ(link_between(*topology, "n0.gpu0", "n0.gpu2")->capacity, Rational(50 * kGigabyte));
  EXPECT_EQ(link_between(*topology, "n0.gpu1", "n0.gpu3"), nullptr);
}

TEST(SmiMatrix, PutsNicsBesideTheirGpus) {
  const auto topology = topology_from_smi_matrix(kCubeMesh, 2);
  ASSERT_TRUE(topology) << topology.error().message;
  std::string bridge_of_nic, bridge_of_gpu;
  for (const Link& link : topology->links()) {
    if (topology->vertex(link.to).name == "n0.nic1.out") bridge_of_nic = topology->vertex(link.from).name;
    if (topology->vertex(link.from).name == "n0.gpu3" && link.name == "pcie")
      bridge_of_gpu = topology->vertex(link.to).name;
  }
  EXPECT_EQ(bridge_of_nic, bridge_of_gpu);
}

TEST(SmiMatrix, KnowsAnNvswitchByMoreLinksThanAGpuHas) {
  std::string text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n";
  for (int i = 0; i < 4; ++i) {
    text += "GPU" + std::to_string(i);
    for (int j = 0; j < 4; ++j) text += i == j ? "\t X " : "\tNV12";
    text += "\t0-63\n";
  }
  const auto topology = topology_from_smi_matrix(text);
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(link_between(*topology, "n0.gpu0", "n0.nvswitch")->capacity, Rational(300 * kGigabyte));
}

TEST(SmiMatrix, OfPcieOnlyIsATree) {
  const auto topology = topology_from_smi_matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0\nGPU1\tSYS\t X \t1\n");
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_NE(link_between(*topology, "n0.numa1", "n0.numa0"), nullptr);
}

TEST(SmiMatrix, NamesTheLineOfAMistake) {
  const auto why = [](std::string_view text) { return topology_from_smi_matrix(text).error().message; };
  EXPECT_EQ(why("\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tFOO\nGPU1\tSYS\tX\n"),
            "line 2: 'FOO' between GPU0 and GPU1; expected X, NV#, PIX, PXB, PHB, NODE or SYS");
  EXPECT_NE(why("\tGPU0\tGPU1\nGPU0\tX\n").find("line 2: GPU0 has 1 entries for 2 devices"), std::string::npos);
  EXPECT_NE(why("hello").find("not the matrix"), std::string::npos);
}

}  // namespace
}  // namespace tutti
