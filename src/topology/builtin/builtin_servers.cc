// Servers of several GPUs behind a fabric. Latency of a way through a switch lies half on the link in and half on the
// link out; that of a way between servers on the links between NIC and fabric. A single server has no NICs.
#include <array>
#include <string_view>

#include "documents/json_value.hpp"
#include "topology/builtin/builtin_parts.hpp"

namespace tutti {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;

Rational gigabytes(std::int64_t number) { return number * kGigabyte; }
Rational nanoseconds(std::int64_t number) { return {number, 1'000'000'000}; }

/// What all servers of a kind have in common.
struct Figures {
  int gpus;
  Rational nic_bandwidth;
  Rational fabric_latency;  // from NIC to NIC
};

int nodes_of(const BuiltinValues& values, const Figures& figures) {
  return values.integer("nodes", 1, kMostRanks / figures.gpus);
}

std::vector<int> add_gpus(Topology& topology, int node, int count) {
  std::vector<int> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back(topology.add_gpu(in_node(node, "gpu", i), node));
  return gpus;
}

/// Every GPU with a port of `bandwidth` into one switch of the node; `latency` from GPU to GPU.
void add_crossbar(Topology& topology, int node, const std::vector<int>& gpus, const Rational& bandwidth,
                  const Rational& latency, SwitchSkills skills = {}) {
  const int crossbar = topology.add_switch(in_node(node, "nvswitch"), node, skills);
  for (const int gpu : gpus) topology.add_duplex({gpu, crossbar, bandwidth, latency / 2, "nvlink"});
}

/// A NIC that serves only one GPU.
void add_own_nic(Topology& topology, const Figures& figures, int node, int number, int gpu, int fabric) {
  const int nic = topology.add_nic(in_node(node, "nic", number), node);
  topology.add_duplex({gpu, nic, figures.nic_bandwidth, 0, "pcie"});
  topology.add_duplex({nic, fabric, figures.nic_bandwidth, figures.fabric_latency / 2, "ib"});
}

/// A NIC that several GPUs share is no way between them, so it is two vertices (topology.hpp). No source gives a figure
/// for PCIe; a GPU is taken to reach the NIC as fast as that sends.
void add_shared_nic(Topology& topology, const Figures& figures, int node, int number, const std::vector<int>& gpus,
                    int fabric) {
  const int out = topology.add_nic(in_node(node, "nic", number) + ".out", node);
  const int in = topology.add_nic(in_node(node, "nic", number) + ".in", node);
  for (const int gpu : gpus) {
    topology.add_link({gpu, out, figures.nic_bandwidth, 0, "pcie"});
    topology.add_link({in, gpu, figures.nic_bandwidth, 0, "pcie"});
  }
  topology.add_link({out, fabric, figures.nic_bandwidth, figures.fabric_latency / 2, "ib"});
  topology.add_link({fabric, in, figures.nic_bandwidth, figures.fabric_latency / 2, "ib"});
}

struct Pair {
  int one, other, links;
};

void add_direct_links(Topology& topology, const std::vector<int>& gpus, std::span<const Pair> pairs,
                      const Rational& bandwidth_of_one, const Rational& latency, const std::string& name) {
  for (const Pair& pair : pairs)
    topology.add_duplex({gpus[static_cast<std::size_t>(pair.one)], gpus[static_cast<std::size_t>(pair.other)],
                         bandwidth_of_one * pair.links, latency, name});
}

// DGX-1's cube mesh: pairs with two NVLinks and with one.
constexpr std::array<Pair, 16> kCubeMesh = {{{0, 1, 2},
                                             {0, 2, 1},
                                             {0, 3, 1},
                                             {0, 4, 2},
                                             {1, 2, 1},
                                             {1, 3, 2},
                                             {1, 5, 1},
                                             {2, 3, 2},
                                             {2, 6, 2},
                                             {3, 7, 1},
                                             {4, 5, 2},
                                             {4, 6, 1},
                                             {4, 7, 1},
                                             {5, 6, 1},
                                             {5, 7, 2},
                                             {6, 7, 2}}};

// The 16 dies of four MI250X pairs, as ForestColl and TE-CCL both give them.
constexpr std::array<Pair, 28> kMi250Mesh = {
    {{0, 1, 4},   {0, 4, 2},   {0, 8, 1},   {1, 5, 1},   {1, 9, 1},   {1, 10, 1},  {2, 3, 4},
     {2, 6, 1},   {2, 9, 1},   {2, 10, 1},  {3, 7, 2},   {3, 11, 1},  {4, 5, 4},   {4, 6, 1},
     {5, 6, 1},   {5, 7, 1},   {6, 7, 4},   {8, 9, 4},   {8, 12, 2},  {9, 13, 1},  {10, 11, 4},
     {10, 14, 1}, {11, 15, 2}, {12, 13, 4}, {12, 14, 1}, {13, 14, 1}, {13, 15, 1}, {14, 15, 4}}};

}  // namespace

// Figures of TE-CCL's NDv2: NVLink 50 and 25 GB/s, InfiniBand 12.5 GB/s, alpha 0.7 and 1.3 us.
Topology make_ndv2(const BuiltinValues& values) {
  const Figures figures{8, gigabytes(25) / 2, nanoseconds(1300)};
  const int nodes = nodes_of(values, figures);
  Topology topology;
  const int fabric = nodes > 1 ? topology.add_switch("ib", kSharedNode) : -1;
  for (int node = 0; node < nodes; ++node) {
    const auto gpus = add_gpus(topology, node, figures.gpus);
    add_direct_links(topology, gpus, kCubeMesh, gigabytes(25), nanoseconds(700), "nvlink");
    if (nodes > 1) add_shared_nic(topology, figures, node, 0, gpus, fabric);
  }
  return topology;
}

// Figures of TE-CCL's DGX2: 125 GB/s a GPU, 8 NICs of 12.5 GB/s, alpha 0.35 and 2.6 us.
Topology make_dgx2(const BuiltinValues& values) {
  const Figures figures{16, gigabytes(25) / 2, nanoseconds(2600)};
  const int nodes = nodes_of(values, figures);
  Topology topology;
  const int fabric = nodes > 1 ? topology.add_switch("ib", kSharedNode) : -1;
  for (int node = 0; node < nodes; ++node) {
    const auto gpus = add_gpus(topology, node, figures.gpus);
    add_crossbar(topology, node, gpus, gigabytes(125), nanoseconds(350));
    for (int i = 0; nodes > 1 && i < figures.gpus; i += 2) {
      const auto first = static_cast<std::size_t>(i);
      add_shared_nic(topology, figures, node, i / 2, {gpus[first], gpus[first + 1]}, fabric);
    }
  }
  return topology;
}

// Bandwidths of ForestColl's A100: 300 GB/s a GPU, 25 GB/s a NIC. Latencies are those of DGX2: no source gives others.
Topology make_dgx_a100(const BuiltinValues& values) {
  const Figures figures{8, gigabytes(25), nanoseconds(2600)};
  const int nodes = nodes_of(values, figures);
  Topology topology;
  const int fabric = nodes > 1 ? topology.add_switch("ib", kSharedNode) : -1;
  for (int node = 0; node < nodes; ++node) {
    const auto gpus = add_gpus(topology, node, figures.gpus);
    add_crossbar(topology, node, gpus, gigabytes(300), nanoseconds(350));
    for (int i = 0; nodes > 1 && i < figures.gpus; ++i)
      add_own_nic(topology, figures, node, i, gpus[static_cast<std::size_t>(i)], fabric);
  }
  return topology;
}

namespace {

std::vector<int> add_rails(Topology& topology, int rails) {
  std::vector<int> switches;
  for (int rail = 0; rail < rails; ++rail) switches.push_back(topology.add_switch("rail" + std::to_string(rail), -1));
  return switches;
}

/// Leaves with their ways up to a spine; a leaf's way up is one link of all its bandwidth.
std::vector<int> add_leaves(Topology& topology, int nodes, const BuiltinValues& values, const Figures& figures) {
  const int per_leaf = values.integer("nodes_per_leaf", 1, kMostRanks);
  const Rational up = figures.nic_bandwidth * figures.gpus * per_leaf / values.ratio("oversubscription");
  const int spine = topology.add_switch("spine", kSharedNode);
  std::vector<int> leaf_of_node;
  int leaf = -1;
  for (int node = 0; node < nodes; ++node) {
    if (node % per_leaf == 0) {
      leaf = topology.add_switch("leaf" + std::to_string(node / per_leaf), kSharedNode);
      topology.add_duplex({leaf, spine, up, nanoseconds(300), "ib"});
    }
    leaf_of_node.push_back(leaf);
  }
  return leaf_of_node;
}

}  // namespace

// NVLink 4: 450 GB/s a GPU, and ConnectX-7: 50 GB/s a NIC, as NVIDIA states them. Latencies are those of DGX2, and
// 0.3 us for a hop between leaf and spine; no source gives others.
Topology make_dgx_h100(const BuiltinValues& values) {
  const Figures figures{8, gigabytes(50), nanoseconds(2600)};
  const int nodes = nodes_of(values, figures);
  const std::string_view fabric = values.text("fabric");
  const bool rails = fabric == "rail";
  if (!rails && fabric != "leaf-spine")
    throw InputError("fabric: '" + std::string(fabric) + "' is out of place; expected rail or leaf-spine");
  Topology topology;
  std::vector<int> switches;
  if (nodes > 1) switches = rails ? add_rails(topology, figures.gpus) : add_leaves(topology, nodes, values, figures);
  for (int node = 0; node < nodes; ++node) {
    const auto gpus = add_gpus(topology, node, figures.gpus);
    add_crossbar(topology, node, gpus, gigabytes(450), nanoseconds(350), {true, true});
    for (int i = 0; nodes > 1 && i < figures.gpus; ++i) {
      const int attached = switches[static_cast<std::size_t>(rails ? i : node)];
      add_own_nic(topology, figures, node, i, gpus[static_cast<std::size_t>(i)], attached);
    }
  }
  return topology;
}

// Bandwidths of ForestColl's MI250: 50 GB/s an xGMI link, 16 GB/s a NIC (TE-CCL gives 25). Latencies as NDv2's.
Topology make_mi250(const BuiltinValues& values) {
  const Figures figures{16, gigabytes(16), nanoseconds(1300)};
  const int nodes = nodes_of(values, figures);
  Topology topology;
  const int fabric = nodes > 1 ? topology.add_switch("ib", kSharedNode) : -1;
  for (int node = 0; node < nodes; ++node) {
    const auto gpus = add_gpus(topology, node, figures.gpus);
    add_direct_links(topology, gpus, kMi250Mesh, gigabytes(50), nanoseconds(700), "xgmi");
    for (int i = 0; nodes > 1 && i < figures.gpus; ++i)
      add_own_nic(topology, figures, node, i, gpus[static_cast<std::size_t>(i)], fabric);
  }
  return topology;
}

}  // namespace tutti
