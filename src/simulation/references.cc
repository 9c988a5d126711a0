#include "simulation/references.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

#include "algorithm/algorithm.hpp"
#include "algorithm/builder.hpp"
#include "algorithm/patterns.hpp"
#include "simulation/channels.hpp"
#include "simulation/flat_program.hpp"

namespace tutti {
namespace {

using generate::Group;
using generate::input;
using generate::output;
using generate::PartBuilder;
using simulation::ReferenceChannel;

constexpr std::uint64_t kNcclSlot = 512 << 10;

using Channels = std::shared_ptr<const std::vector<ReferenceChannel>>;

/// One channel's share of a ring: chunk `channel` of each of `count` in a block, or of as many in a shard.
void emit_ring_channel(PartBuilder& part, const std::vector<int>& order, int channel, int count) {
  const Group ring = Group::of(order, part.rank());
  const auto position_of_root = [&] { return Group::of(order, part.shape().root).position; };
  const auto of_block = [&](int position) { return ring.rank_at(position) * count + channel; };
  const auto of_shard = [&](int shard) { return channel * ring.size() + shard; };
  switch (part.shape().collective) {
    case Collective::all_reduce:
      return ring_all_reduce(
          part, ring, [&](int shard) { return input(of_shard(shard)); },
          [&](int shard) { return output(of_shard(shard)); }, channel);
    case Collective::reduce_scatter:
      return ring_reduce_scatter(
          part, ring, [&](int position) { return input(of_block(position)); }, output(channel), channel);
    case Collective::all_gather:
      return ring_all_gather(
          part, ring, input(channel), [&](int position) { return output(of_block(position)); }, channel);
    case Collective::broadcast:
      return chain_broadcast(part, ring, position_of_root(), input(channel), output(channel), channel);
    default:
      return chain_reduce(part, ring, position_of_root(), input(channel), output(channel), channel);
  }
}

void emit_rings(PartBuilder& part, const std::vector<ReferenceChannel>& channels) {
  const int count = static_cast<int>(channels.size());
  for (int channel = 0; channel < count; ++channel)
    emit_ring_channel(part, channels[static_cast<std::size_t>(channel)].ring, channel, count);
  if (part.shape().collective == Collective::all_gather)
    part.local().copy(input(0, count), output(part.rank() * count, count));
  if (part.shape().collective == Collective::broadcast && part.rank() == part.shape().root)
    part.local().copy(input(0, count), output(0, count));
}

/// A rank's place in one of a channel's two trees: the first of each chain is in the tree across nodes.
generate::TreePlace tree_place(const ReferenceChannel& channel, int rank, int tree) {
  std::vector<int> heads;
  for (const auto& chain : channel.chain) heads.push_back(chain[0]);
  for (const auto& chain : channel.chain) {
    const auto found = std::find(chain.begin(), chain.end(), rank);
    if (found == chain.end()) continue;
    generate::TreePlace place;
    if (found == chain.begin())
      place = generate::double_tree_place(Group::of(heads, rank), tree);
    else
      place.parent = *std::prev(found);
    if (std::next(found) != chain.end()) place.children.push_back(*std::next(found));
    return place;
  }
  return {};
}

void emit_trees(PartBuilder& part, const std::vector<ReferenceChannel>& channels) {
  for (int chunk = 0; chunk < 2 * static_cast<int>(channels.size()); ++chunk) {
    const auto place = tree_place(channels[static_cast<std::size_t>(chunk / 2)], part.rank(), chunk % 2);
    tree_reduce(part, place, input(chunk), output(chunk), chunk);
    tree_broadcast(part, place, output(chunk), output(chunk), chunk);
  }
}

/// Who sends to whom, and how.
struct Directions {
  struct Relayed {
    int from, to, relay;
  };
  std::vector<std::vector<int>> targets;  // [from] in the order of sending
  std::vector<std::vector<int>> relays;   // [from][to] the GPU that passes it on; kNobody: it goes there itself
  std::vector<Relayed> relayed;           // all such, in the order of sending

  int relay(int from, int to) const { return relays[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)]; }
};

/// GPUs of the sender's node that both hops lead over, without a NIC on the first.
int relay_between(Routes& routes, const std::vector<int>& node, int from, int to) {
  std::vector<int> found;
  for (const int between : node)
    if (between != from && between != to && routes.count(from, between) > 0 && routes.count(between, to) > 0 &&
        !simulation::passes_nic(routes, from, between))
      found.push_back(between);
  const auto passes_on_by_nvlink = [&](int between) { return !simulation::passes_nic(routes, between, to); };
  if (std::any_of(found.begin(), found.end(), passes_on_by_nvlink))
    found.erase(std::remove_if(found.begin(), found.end(), std::not_fn(passes_on_by_nvlink)), found.end());
  if (found.empty()) return kNobody;
  return found[static_cast<std::size_t>(from + to) % found.size()];
}

void find_relays(Routes& routes, const std::vector<int>& node, Directions& directions) {
  for (const int from : node)
    for (const int to : directions.targets[static_cast<std::size_t>(from)]) {
      const bool same_node = std::find(node.begin(), node.end(), to) != node.end();
      if (routes.count(from, to) > 0 && !(same_node && simulation::passes_nic(routes, from, to))) continue;
      const int relay = relay_between(routes, node, from, to);
      if (relay == kNobody) continue;
      directions.relays[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)] = relay;
      directions.relayed.push_back({from, to, relay});
    }
}

/// By distance between nodes, then by distance between places in them: so nobody is everybody's next target.
Directions find_directions(Routes& routes) {
  const auto nodes = simulation::ranks_of_nodes(routes.topology());
  const auto ranks = static_cast<std::size_t>(routes.topology().ranks());
  Directions directions{
      std::vector<std::vector<int>>(ranks), std::vector<std::vector<int>>(ranks, std::vector<int>(ranks, kNobody)), {}};
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (std::size_t place = 0; place < nodes[node].size(); ++place) {
      std::vector<int>& targets = directions.targets[static_cast<std::size_t>(nodes[node][place])];
      for (std::size_t away = 0; away < nodes.size(); ++away) {
        const std::vector<int>& others = nodes[(node + away) % nodes.size()];
        for (std::size_t further = 0; further < others.size(); ++further)
          if (const int to = others[(place + further) % others.size()]; to != nodes[node][place]) targets.push_back(to);
      }
    }
    find_relays(routes, nodes[node], directions);
  }
  return directions;
}

/// The exchange between all pairs, as one rank sees it. What is passed on goes over channels of its own, and both ends
/// of each know the order.
class DirectExchange {
 public:
  DirectExchange(PartBuilder& part, const Directions& directions)
      : part_(part), directions_(directions), rank_(part.rank()) {}

  void emit() {
    for (const int to : targets_of(rank_)) {
      const int relay = directions_.relay(rank_, to);
      part_.worker(relay == kNobody ? to : relay, kNobody, relay == kNobody ? kDirect : kToRelay).send(input(to));
    }
    pass_on();
    for (const int from : targets_of(rank_))
      if (directions_.relay(from, rank_) == kNobody) part_.worker(kNobody, from, kDirect).recv(output(from));
    for (const auto& [from, to, relay] : directions_.relayed)
      if (to == rank_) part_.worker(kNobody, relay, kFromRelay).recv(output(from));
    part_.local().copy(input(rank_), output(rank_));
  }

 private:
  static constexpr int kDirect = 0, kToRelay = 1, kFromRelay = 2;

  const std::vector<int>& targets_of(int rank) const { return directions_.targets[static_cast<std::size_t>(rank)]; }

  void pass_on() {
    for (const auto& [from, to, relay] : directions_.relayed) {
      if (relay != rank_) continue;
      const Cells held = part_.scratch(1);
      part_.worker(kNobody, from, kToRelay).recv(held);
      part_.worker(to, kNobody, kFromRelay).send(held);
    }
  }

  PartBuilder& part_;
  const Directions& directions_;
  int rank_;
};

Program nccl_program(generate::Recipe recipe) {
  Program program = assemble(std::move(recipe), 1);
  program.tile = kNcclSlot;
  return program;
}

Program ring_program(const Shape& of_one_chunk, const Channels& channels) {
  const int count = static_cast<int>(channels->size());
  Shape shape = of_one_chunk;
  shape.chunks = shape.collective == Collective::all_reduce ? shape.ranks * count : count;
  return nccl_program({.name = "nccl_ring", .shape = shape, .channels = count, .emit = [channels](PartBuilder& part) {
                         emit_rings(part, *channels);
                       }});
}

Program tree_program(const Shape& of_one_chunk, const Channels& channels) {
  Shape shape = of_one_chunk;
  shape.chunks = 2 * static_cast<int>(channels->size());
  return nccl_program(
      {.name = "nccl_tree", .shape = shape, .channels = shape.chunks, .emit = [channels](PartBuilder& part) {
         emit_trees(part, *channels);
       }});
}

Program direct_program(const Shape& shape, Routes& routes) {
  const auto directions = std::make_shared<const Directions>(find_directions(routes));
  return nccl_program({.name = "nccl_direct",
                       .shape = shape,
                       .in_place = false,
                       .channels = 3,
                       .emit = [directions](PartBuilder& part) { DirectExchange(part, *directions).emit(); }});
}

std::vector<Program> nccl_programs(Routes& routes, const Shape& shape) {
  switch (shape.collective) {
    case Collective::all_reduce:
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::broadcast:
    case Collective::reduce: {
      const auto channels = std::make_shared<const std::vector<ReferenceChannel>>(simulation::find_channels(routes));
      if (channels->empty()) return {};
      std::vector<Program> programs = {ring_program(shape, channels)};
      if (shape.collective == Collective::all_reduce) programs.push_back(tree_program(shape, channels));
      return programs;
    }
    case Collective::all_to_all:
      return {direct_program(shape, routes)};
    default:
      return {};
  }
}

std::vector<Program> own_programs(const Topology& topology, const Shape& shape) {
  const Layout layout = layout_of(topology);
  std::vector<Program> programs;
  for (const char* name : {"ring", "double_tree", "recursive_doubling"})
    if (auto program = make_program(name, shape.collective, layout, {.root = shape.root}))
      programs.push_back(std::move(*program));
  return programs;
}

}  // namespace

Layout layout_of(const Topology& topology) {
  Layout layout;
  std::vector<int> host_of_node(static_cast<std::size_t>(topology.nodes()), -1);
  int hosts = 0;
  for (const int gpu : topology.gpus()) {
    const int node = topology.vertex(gpu).node;
    if (node < 0) {
      layout.host_of.push_back(hosts++);
      continue;
    }
    int& host = host_of_node[static_cast<std::size_t>(node)];
    if (host < 0) host = hosts++;
    layout.host_of.push_back(host);
  }
  return layout;
}

std::vector<Reference> reference_programs(Routes& routes, Collective collective, int root) {
  const Topology& topology = routes.topology();
  if (topology.ranks() < 2) return {};
  const Shape shape{collective, topology.ranks(), has_root(collective) ? root : 0, 1};
  std::vector<Program> programs = nccl_programs(routes, shape);
  std::vector<Program> own = own_programs(topology, shape);
  std::move(own.begin(), own.end(), std::back_inserter(programs));
  std::vector<Reference> references;
  for (Program& program : programs)
    if (simulation::flatten(program, routes)) references.push_back({program.name, std::move(program)});
  return references;
}

}  // namespace tutti
