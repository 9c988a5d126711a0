#include "bound/claims.hpp"

#include <algorithm>
#include <numeric>

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Certificate blank(const Subject& subject) {
  Certificate certificate;
  certificate.topology = subject.network->topology->name();
  certificate.collective = subject.collective;
  certificate.ranks = subject.network->topology->ranks();
  certificate.root = subject.root;
  return certificate;
}

/// The latency of the shortest way by each link, from any of `from` to any of `to`.
std::vector<std::int64_t> ways(const Network& network, const std::vector<int>& from, const std::vector<int>& to) {
  const auto before = network.distances(from, false, network.latency),
             after = network.distances(to, true, network.latency);
  std::vector<std::int64_t> ways(network.latency.size(), kUnreachable);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const Link& link = network.topology->links()[i];
    if (before[at(link.from)] == kUnreachable || after[at(link.to)] == kUnreachable) continue;
    ways[i] = before[at(link.from)] + network.latency[i] + after[at(link.to)];
  }
  return ways;
}

/// Of the whole vector, what `senders` ranks owe `receivers` ranks across a cut.
Rational share(const Subject& subject, std::int64_t senders, std::int64_t receivers) {
  const std::int64_t ranks = subject.network->topology->ranks();
  switch (subject.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return {senders, ranks};
    case Collective::reduce_scatter:
    case Collective::scatter:
      return {receivers, ranks};
    case Collective::all_to_all:
      return {senders * receivers, ranks};
    default:
      return 1;
  }
}

Wide wide(std::int64_t number) { return static_cast<Wide>(number); }

}  // namespace

Certificate claim(const Subject& subject, Cut evidence) {
  const Network& network = *subject.network;
  const Topology& topology = *network.topology;
  Marks inside(topology.vertices().size(), 0);
  for (const int vertex : evidence.inside) inside[at(vertex)] = 1;
  std::vector<int> senders, receivers;
  for (const int gpu : topology.gpus()) {
    const int rank = topology.vertex(gpu).rank;
    const int named = inside[at(gpu)] ? evidence.from : evidence.to;
    if (named == kAnyRank || named == rank) (inside[at(gpu)] ? senders : receivers).push_back(gpu);
  }
  const auto way = ways(network, senders, receivers);
  std::int64_t capacity = 0, shortest = kUnreachable;
  for (int i = 0; i < topology.link_count(); ++i) {
    if (!inside[at(topology.link(i).from)] || inside[at(topology.link(i).to)]) continue;
    capacity += network.capacity[at(i)];
    shortest = std::min(shortest, way[at(i)]);
  }
  Certificate certificate = blank(subject);
  certificate.latency = network.latency_unit * shortest;
  certificate.rate = share(subject, std::ssize(senders), std::ssize(receivers)) / (network.capacity_unit * capacity);
  certificate.evidence = std::move(evidence);
  return certificate;
}

Certificate claim(const Subject& subject, Partition evidence) {
  const Network& network = *subject.network;
  const Topology& topology = *network.topology;
  const auto way = ways(network, topology.gpus(), topology.gpus());
  Marks inside(topology.vertices().size(), 0);
  Rational capacity;
  std::int64_t shortest = kUnreachable;
  for (const auto& part : evidence.parts) {
    for (const int vertex : part) inside[at(vertex)] = 1;
    std::int64_t own = 0;
    for (const int vertex : part)
      for (const int link : evidence.sent ? topology.out_links(vertex) : topology.in_links(vertex)) {
        const int beyond = evidence.sent ? topology.link(link).to : topology.link(link).from;
        if (inside[at(beyond)]) continue;
        own += network.capacity[at(link)];
        shortest = std::min(shortest, way[at(link)]);
      }
    for (const int vertex : part) inside[at(vertex)] = 0;
    capacity += network.capacity_unit * own;
  }
  Certificate certificate = blank(subject);
  certificate.latency = network.latency_unit * shortest;
  certificate.rate = Rational(2 * (std::ssize(evidence.parts) - 1)) / capacity;
  certificate.evidence = std::move(evidence);
  return certificate;
}

Certificate claim(const Subject& subject, Lengths evidence, const Symmetries& symmetries) {
  const Network& network = *subject.network;
  const Topology& topology = *network.topology;
  Wide demand = 0;
  for (const int rank : symmetries.representatives()) {
    const auto reach = network.distances({topology.gpu(rank)}, false, evidence.of_links);
    Wide total = 0;
    for (const int target : topology.gpus()) total += wide(reach[at(target)]);
    demand += total * wide(std::count(symmetries.orbit_of.begin(), symmetries.orbit_of.end(), rank));
  }
  const auto way = ways(network, topology.gpus(), topology.gpus());
  Wide supply = 0, delayed = 0;
  for (std::size_t i = 0; i < way.size(); ++i) {
    const Wide weight = wide(network.capacity[i]) * wide(evidence.of_links[i]);
    supply += weight;
    if (way[i] != kUnreachable) delayed += weight * wide(way[i]);
  }
  Certificate certificate = blank(subject);
  certificate.latency = Rational::rounded_down(delayed * wide(network.latency_unit.numerator()),
                                               supply * wide(network.latency_unit.denominator()));
  certificate.rate = Rational::rounded_down(demand * wide(network.capacity_unit.denominator()),
                                            supply * wide(network.capacity_unit.numerator()) * wide(topology.ranks()));
  certificate.evidence = std::move(evidence);
  return certificate;
}

}  // namespace tutti
