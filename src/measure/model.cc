#include "measure/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "measure/layer.hpp"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Model {
 public:
  Model(const Findings& findings, const std::string& name) : findings_(findings), topology_(name) {}

  Topology build() {
    for (int rank = 0; rank < pairs().ranks(); ++rank)
      topology_.add_gpu(fmt::format("rank{}", rank), pairs().host(rank));
    for (int host = 0; host < pairs().hosts(); ++host) add_inside(host);
    add_outside();
    return std::move(topology_);
  }

 private:
  const PairTable& pairs() const { return findings_.pairs; }

  static double shared_rate(const MeasuredPort& port) { return port.shared ? port.rate : 0; }

  void add_inside(int host) {
    const HostFinding& found = findings_.hosts[at(host)];
    LayerNetwork network;
    network.name = fmt::format("host{}", host);
    for (const int rank : found.ranks)
      network.endpoints.push_back({topology_.gpu(rank), topology_.gpu(rank), fmt::format("rank{}.local", rank), host,
                                   shared_rate(findings_.local.out[at(rank)]),
                                   shared_rate(findings_.local.in[at(rank)])});
    network.rate = [&](int from, int to) { return pairs().rate(found.ranks[at(from)], found.ranks[at(to)]); };
    network.latency = [&](int from, int to) { return pairs().latency(found.ranks[at(from)], found.ranks[at(to)]); };
    if (found.memory > 0) {
      std::vector<int> all(found.ranks.size());
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
      network.paths.push_back({all, all, found.memory});
    }
    add_network(topology_, network);
  }

  /// Ranks that leave their host together: all of it where they share a NIC, else each by itself.
  void add_outside() {
    if (pairs().hosts() < 2) return;
    endpoint_of_.assign(at(pairs().ranks()), 0);
    LayerNetwork network;
    network.name = "network";
    network.port_kind = VertexKind::nic;
    network.joins_nodes_only = true;
    for (int host = 0; host < pairs().hosts(); ++host) {
      const HostFinding& found = findings_.hosts[at(host)];
      if (found.ranks.size() > 1 && (found.out > 0 || found.in > 0))
        add_shared_nic(network, host);
      else
        for (const int rank : found.ranks) add_own_nic(network, rank);
    }
    network.rate = [&](int from, int to) { return best(from, to).rate; };
    network.latency = [&](int from, int to) { return best(from, to).latency; };
    for (const Trunk& trunk : findings_.trunks)
      network.paths.push_back({endpoints_of(trunk.from), endpoints_of(trunk.to), trunk.rate});
    add_network(topology_, network);
  }

  void add_own_nic(LayerNetwork& network, int rank) {
    endpoint_of_[at(rank)] = static_cast<int>(network.endpoints.size());
    members_.push_back({rank});
    network.endpoints.push_back({topology_.gpu(rank), topology_.gpu(rank), fmt::format("rank{}.nic", rank),
                                 pairs().host(rank), shared_rate(findings_.remote.out[at(rank)]),
                                 shared_rate(findings_.remote.in[at(rank)])});
  }

  // Two vertices, one each way, so that a NIC is no way between the ranks of its host. A rank farther away from it has
  // its own latency to it, and its own bandwidth.
  void add_shared_nic(LayerNetwork& network, int host) {
    const HostFinding& found = findings_.hosts[at(host)];
    const int out = topology_.add_nic(fmt::format("host{}.nic.out", host), host);
    const int in = topology_.add_nic(fmt::format("host{}.nic.in", host), host);
    double least = std::numeric_limits<double>::infinity();
    for (const int rank : found.ranks) least = std::min(least, pairs().remote_latency(rank));
    for (const int rank : found.ranks) {
      endpoint_of_[at(rank)] = static_cast<int>(network.endpoints.size());
      const Rational extra = rounded_latency((pairs().remote_latency(rank) - least) / 2);
      const auto to_nic = rounded_rate(findings_.remote.out[at(rank)].rate);
      const auto from_nic = rounded_rate(findings_.remote.in[at(rank)].rate);
      topology_.add_link({topology_.gpu(rank), out, to_nic, extra, "nic"});
      topology_.add_link({in, topology_.gpu(rank), from_nic, extra, "nic"});
    }
    members_.push_back(found.ranks);
    network.endpoints.push_back({out, in, fmt::format("host{}.port", host), host, found.out, found.in});
  }

  /// The fastest pair of ranks behind two endpoints, and the latency of most.
  LineFit best(int from, int to) const {
    LineFit found;
    std::vector<double> latencies;
    for (const int a : members_[at(from)])
      for (const int b : members_[at(to)]) {
        found.rate = std::max(found.rate, pairs().rate(a, b));
        latencies.push_back(pairs().latency(a, b));
      }
    found.latency = median(std::move(latencies));
    return found;
  }

  std::vector<int> endpoints_of(const std::vector<int>& ranks) const {
    std::vector<int> ends;
    for (const int rank : ranks) ends.push_back(endpoint_of_[at(rank)]);
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    return ends;
  }

  const Findings& findings_;
  Topology topology_;
  std::vector<int> endpoint_of_;           // of the network between hosts, by rank
  std::vector<std::vector<int>> members_;  // ranks, by endpoint
};

}  // namespace

Topology topology_of(const Findings& findings, const std::string& name) { return Model(findings, name).build(); }

}  // namespace tutti
