#include "topology/builtin/host.hpp"

#include <algorithm>
#include <numeric>

#include "topology/builtin/builtin_parts.hpp"

namespace tutti {
namespace {

const Rational& nvlink_latency() {
  static const Rational kLatency(7, 10'000'000);
  return kLatency;
}
const Rational& pcie_latency() {
  static const Rational kLatency(5, 10'000'000);
  return kLatency;
}
const Rational& network_latency() {
  static const Rational kLatency(26, 10'000'000);
  return kLatency;
}

/// Whether NVLinks alone join all GPUs.
bool joined_by_nvlink(const HostDescription& host) {
  const auto count = host.gpus.size();
  std::vector<std::size_t> group(count + 1);  // the last: the NVSwitch
  std::iota(group.begin(), group.end(), 0);
  const auto find = [&](std::size_t at) {
    while (group[at] != at) at = group[at];
    return at;
  };
  for (const HostDescription::Nvlink& link : host.nvlinks)
    group[find(static_cast<std::size_t>(link.one))] = find(static_cast<std::size_t>(link.other));
  for (std::size_t i = 0; i < count; ++i)
    if (!host.gpus[i].switch_bandwidth.is_zero()) group[find(i)] = find(count);
  for (std::size_t i = 1; i < count; ++i)
    if (find(i) != find(0)) return false;
  return true;
}

/// One host in the topology.
class NodeMaker {
 public:
  NodeMaker(Topology& topology, const HostDescription& host, int node) : topology_(topology), host_(host), node_(node) {
    for (const HostDescription::Gpu& gpu : host.gpus) gpus_.push_back(topology.add_gpu(in_node(node, gpu.name), node));
    add_nvlinks();
  }

  /// The PCIe tree with its GPUs, both ways.
  void add_shared_tree(int network) {
    const std::vector<int> bridges = add_bridges("");
    for (std::size_t i = 0; i < gpus_.size(); ++i)
      topology_.add_duplex({gpus_[i], bridges[static_cast<std::size_t>(host_.gpus[i].bridge)], host_.gpus[i].bandwidth,
                            pcie_latency(), "pcie"});
    if (network < 0) return;
    for (const HostDescription::Nic& nic : host_.nics) {
      const int vertex = topology_.add_nic(in_node(node_, nic.name), node_);
      topology_.add_duplex(
          {vertex, bridges[static_cast<std::size_t>(nic.bridge)], nic.bandwidth, pcie_latency(), "pcie"});
      topology_.add_duplex({vertex, network, nic.network_bandwidth, network_latency() / 2, "network"});
    }
  }

  /// Two PCIe trees, from the GPUs to the NICs and back.
  void add_ways_to_nics(int network) {
    const std::vector<int> out = add_bridges(".out"), in = add_bridges(".in");
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const auto bridge = static_cast<std::size_t>(host_.gpus[i].bridge);
      topology_.add_link({gpus_[i], out[bridge], host_.gpus[i].bandwidth, pcie_latency(), "pcie"});
      topology_.add_link({in[bridge], gpus_[i], host_.gpus[i].bandwidth, pcie_latency(), "pcie"});
    }
    for (const HostDescription::Nic& nic : host_.nics) {
      const auto bridge = static_cast<std::size_t>(nic.bridge);
      const int sender = topology_.add_nic(in_node(node_, nic.name) + ".out", node_);
      const int receiver = topology_.add_nic(in_node(node_, nic.name) + ".in", node_);
      topology_.add_link({out[bridge], sender, nic.bandwidth, pcie_latency(), "pcie"});
      topology_.add_link({sender, network, nic.network_bandwidth, network_latency() / 2, "network"});
      topology_.add_link({network, receiver, nic.network_bandwidth, network_latency() / 2, "network"});
      topology_.add_link({receiver, in[bridge], nic.bandwidth, pcie_latency(), "pcie"});
    }
  }

 private:
  void add_nvlinks() {
    for (const HostDescription::Nvlink& link : host_.nvlinks)
      topology_.add_duplex({gpus_[static_cast<std::size_t>(link.one)], gpus_[static_cast<std::size_t>(link.other)],
                            link.bandwidth, nvlink_latency(), "nvlink"});
    int crossbar = -1;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const Rational& bandwidth = host_.gpus[i].switch_bandwidth;
      if (bandwidth.is_zero()) continue;
      if (crossbar < 0) crossbar = topology_.add_switch(in_node(node_, "nvswitch"), node_, host_.switch_skills);
      topology_.add_duplex({gpus_[i], crossbar, bandwidth, nvlink_latency() / 2, "nvlink"});
    }
  }

  /// Links between bridges go both ways even where the tree leads out only: a way climbs, then descends.
  std::vector<int> add_bridges(const std::string& suffix) {
    std::vector<int> vertices;
    for (const HostDescription::Bridge& bridge : host_.bridges)
      vertices.push_back(topology_.add_switch(in_node(node_, bridge.name) + suffix, node_));
    int first_root = -1;
    for (std::size_t i = 0; i < vertices.size(); ++i) {
      const HostDescription::Bridge& bridge = host_.bridges[i];
      int above =
          bridge.parent == HostDescription::kRoot ? first_root : vertices[static_cast<std::size_t>(bridge.parent)];
      if (bridge.parent == HostDescription::kRoot && first_root < 0) first_root = vertices[i];
      if (above >= 0) topology_.add_duplex({vertices[i], above, bridge.bandwidth, pcie_latency(), "pcie"});
    }
    return vertices;
  }

  Topology& topology_;
  const HostDescription& host_;
  int node_;
  std::vector<int> gpus_;
};

}  // namespace

Topology make_cluster(const HostDescription& host, int nodes) {
  Topology topology;
  const bool nvlink = joined_by_nvlink(host);
  const int network = nodes > 1 ? topology.add_switch("network", kSharedNode) : -1;
  for (int node = 0; node < nodes; ++node) {
    NodeMaker maker(topology, host, node);
    if (!nvlink)
      maker.add_shared_tree(network);
    else if (nodes > 1)
      maker.add_ways_to_nics(network);
  }
  return topology;
}

}  // namespace tutti
