#include "synthesis/taccl/taccl_model.hpp"

#include <algorithm>
#include <set>

namespace tutti {
namespace {

using Connections = std::map<int, std::vector<int>>;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Connections connections_of(const NodeProfile& profile, const InternodeSketch& sketch) {
  using Pattern = InternodeSketch::Pattern;
  if (sketch.pattern == Pattern::listed) return sketch.connections;
  Connections all;
  for (int sender = 0; sender < profile.gpus; ++sender)
    for (int receiver = 0; receiver < profile.gpus; ++receiver)
      if (sketch.pattern == Pattern::fully_connected || sender == receiver) all[sender].push_back(receiver);
  return all;
}

class TacclModelBuilder {
 public:
  TacclModelBuilder(const NodeProfile& profile, const Sketch& sketch, double bytes)
      : profile_(profile), sketch_(sketch) {
    model_.nodes = sketch.nodes;
    model_.gpus = profile.gpus;
    model_.chunks = sketch.chunks;
    model_.chunk_bytes = bytes > 0 ? bytes / (model_.ranks() * sketch.chunks) : double(profile.chunk_bytes);
    model_.has_switches = !sketch.switches.empty();
    model_.policy = sketch.policy;
    model_.balance = sketch.balance;
    model_.symmetries = sketch.symmetry_offsets;
    for (const auto& gpus : sketch.switches) ++planes_[gpus];
  }

  TacclModel build() {
    for (int node = 0; node < model_.nodes; ++node) add_node(node);
    model_.senders_of.resize(at(model_.ranks()));
    if (sketch_.nodes > 1) connect_nodes();
    return model_;
  }

 private:
  /// The number of planes around which both are; 1 for links of their own.
  int planes(int one, int other) const {
    for (const auto& [gpus, count] : planes_)
      if (std::binary_search(gpus.begin(), gpus.end(), one) && std::binary_search(gpus.begin(), gpus.end(), other))
        return count;
    return 1;
  }

  void add_node(int node) {
    const int first = node * profile_.gpus;
    for (int from = 0; from < profile_.gpus; ++from)
      for (int to = 0; to < profile_.gpus; ++to) {
        const double bandwidth = profile_.bandwidth[at(from)][at(to)].value() * planes(from, to);
        if (bandwidth > 0)
          model_.links.push_back(
              {first + from, first + to, profile_.alpha.value(), model_.chunk_bytes / bandwidth, false});
      }
    for (const auto& [gpus, count] : planes_) {
      std::set<int> members;
      for (const int gpu : gpus) members.insert(first + gpu);
      for (const int rank : members)
        add_ports(
            rank, [&](int peer) { return members.count(peer) > 0; }, false);
    }
  }

  /// One in and one out, where there are links between the rank and peers it is asked about.
  template <typename IsPeer>
  void add_ports(int rank, const IsPeer& is_peer, bool remote) {
    for (const bool outgoing : {true, false}) {
      TacclPort port{rank, outgoing, remote, {}};
      for (std::size_t i = 0; i < model_.links.size(); ++i) {
        const TacclLink& link = model_.links[i];
        if ((outgoing ? link.from : link.to) == rank && is_peer(outgoing ? link.to : link.from))
          port.links.push_back(static_cast<int>(i));
      }
      if (!port.links.empty()) model_.ports.push_back(std::move(port));
    }
  }

  void connect_nodes() {
    const Connections pairs = connections_of(profile_, *sketch_.internode);
    int count = 0;
    for (const auto& [sender, receivers] : pairs) count += static_cast<int>(receivers.size());
    const double share = profile_.remote_bandwidth.value() * profile_.nics / count;
    for (int from = 0; from < model_.nodes; ++from)
      for (int to = 0; to < model_.nodes; ++to)
        for (const auto& [sender, receivers] : pairs)
          for (const int receiver : receivers)
            if (from != to)
              model_.links.push_back({from * model_.gpus + sender, to * model_.gpus + receiver,
                                      profile_.remote_alpha.value(), model_.chunk_bytes / share, true});
    if (model_.nodes > 2)
      for (int rank = 0; rank < model_.ranks(); ++rank)
        add_ports(
            rank, [&](int peer) { return model_.node_of(peer) != model_.node_of(rank); }, true);
    model_.own_chunks_first = sketch_.internode->own_chunks_first;
    for (int node = 0; node < model_.nodes; ++node)
      for (const auto& [sender, gpus] : sketch_.internode->gpus_of_sender)
        for (const int gpu : gpus) model_.senders_of[at(node * model_.gpus + gpu)] = {node * model_.gpus + sender};
  }

  const NodeProfile& profile_;
  const Sketch& sketch_;
  std::map<std::vector<int>, int> planes_;  // by the GPUs around the switch
  TacclModel model_;
};

}  // namespace

std::vector<std::vector<int>> TacclModel::ports_of_links() const {
  std::vector<std::vector<int>> through(links.size());
  for (std::size_t port = 0; port < ports.size(); ++port)
    for (const int link : ports[port].links) through[at(link)].push_back(static_cast<int>(port));
  return through;
}

Result<TacclModel> taccl_model(const NodeProfile& profile, const Sketch& sketch, double bytes) {
  if (const auto fits = apply_sketch(profile, sketch); !fits) return tl::unexpected(fits.error());
  return TacclModelBuilder(profile, sketch, bytes).build();
}

TacclModel reversed(const TacclModel& model) {
  TacclModel turned = model;
  for (TacclLink& link : turned.links) std::swap(link.from, link.to);
  for (TacclPort& port : turned.ports) port.outgoing = !port.outgoing;
  for (int rank = 0; rank < model.ranks(); ++rank) {
    std::set<int> gateways;
    for (const int sender : model.senders_of[at(rank)])
      for (const TacclLink& link : model.links)
        if (link.remote && link.from == sender)
          gateways.insert(model.node_of(rank) * model.gpus + link.to % model.gpus);
    turned.senders_of[at(rank)].assign(gateways.begin(), gateways.end());
  }
  return turned;
}

}  // namespace tutti
