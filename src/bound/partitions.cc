#include "bound/partitions.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "bound/cuts.hpp"
#include "bound/spanning_trees.hpp"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

using Groups = std::vector<std::vector<int>>;  // of ranks, each ascending

Groups by_node(const Topology& topology) {
  std::map<int, std::vector<int>> nodes;
  for (int rank = 0; rank < topology.ranks(); ++rank) nodes[topology.vertex(topology.gpu(rank)).node].push_back(rank);
  Groups groups;
  for (auto& [node, ranks] : nodes) groups.push_back(std::move(ranks));
  return groups;
}

/// `whole` as one group and the others each alone.
Groups one_and_singles(const std::vector<int>& whole, const std::vector<int>& others) {
  Groups groups{whole};
  for (const int rank : others) groups.push_back({rank});
  return groups;
}

/// All images of a group of ranks; nothing where two of them overlap without being equal.
std::optional<Groups> images(const Topology& topology, const Symmetries& symmetries, const std::vector<int>& group) {
  Groups groups{group};
  std::vector<int> owner(at(topology.ranks()), -1);
  for (const int rank : group) owner[at(rank)] = 0;
  for (std::size_t next = 0; next < groups.size(); ++next)
    for (const Permutation& symmetry : symmetries.generators) {
      std::vector<int> image;
      for (const int rank : groups[next]) image.push_back(topology.vertex(symmetry[at(topology.gpu(rank))]).rank);
      std::sort(image.begin(), image.end());
      const int known = owner[at(image.front())];
      if (known >= 0 && groups[at(known)] == image) continue;
      for (const int rank : image) {
        if (owner[at(rank)] >= 0) return std::nullopt;
        owner[at(rank)] = static_cast<int>(groups.size());
      }
      groups.push_back(std::move(image));
    }
  if (std::find(owner.begin(), owner.end(), -1) != owner.end()) return std::nullopt;
  return groups;
}

/// Groups of ranks with the switches that belong to them. `network` is the reversed one where receives are counted.
Partition parts_of(const Network& network, const Groups& groups, bool sent) {
  Partition partition;
  partition.sent = sent;
  const Topology& topology = *network.topology;
  SwitchAbsorber absorber(network);
  for (const auto& group : groups) {
    std::vector<int> gpus;
    for (const int rank : group) gpus.push_back(topology.gpu(rank));
    partition.parts.push_back(absorber.grow(gpus));
  }
  return partition;
}

/// Of GPUs with links between them only: the parties that keep so many spanning trees from fitting, nearer and nearer
/// to as many as do fit.
std::vector<Groups> tight_for_trees(const Topology& topology) {
  constexpr int kTrees = 24, kMostRanks = 256;
  constexpr double kNear = 0.002, kSeconds = 1;
  const int ranks = topology.ranks();
  if (topology.vertex_count() != ranks || ranks > kMostRanks) return {};
  std::map<std::pair<int, int>, double> capacities;  // of both ways together
  for (const Link& link : topology.links())
    capacities[std::minmax(topology.vertex(link.from).rank, topology.vertex(link.to).rank)] += link.capacity.value();
  double sum = 0;
  for (const auto& [ends, capacity] : capacities) sum += capacity;
  const Deadline deadline = Deadline::in(kSeconds);
  std::vector<Groups> found;
  const auto fits = [&](double copies_per_capacity) {
    std::vector<SharedEdge> edges;
    for (const auto& [ends, capacity] : capacities)
      edges.push_back({ends.first, ends.second, static_cast<std::int64_t>(capacity * copies_per_capacity)});
    const auto packed = pack_spanning_trees(ranks, edges, kTrees, deadline);
    if (!packed || !packed->trees.empty()) return true;
    Groups groups;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t party = at(packed->party_of[at(rank)]);
      groups.resize(std::max(groups.size(), party + 1));
      groups[party].push_back(rank);
    }
    found.push_back(std::move(groups));
    return false;
  };
  double no = kTrees * (ranks - 1) / sum, yes = no;
  while (!fits(yes)) no = std::exchange(yes, 2 * yes);
  while (yes > no * (1 + kNear)) {
    const double middle = (no + yes) / 2;
    (fits(middle) ? yes : no) = middle;
  }
  return found;
}

std::vector<Groups> candidates(const Topology& topology, const Symmetries& symmetries, const Marks& cut) {
  std::vector<int> inside, outside;
  for (int rank = 0; rank < topology.ranks(); ++rank) (cut[at(topology.gpu(rank))] ? inside : outside).push_back(rank);
  std::vector<Groups> all{one_and_singles({0}, {}),
                          by_node(topology),
                          {inside, outside},
                          one_and_singles(inside, outside),
                          one_and_singles(outside, inside)};
  for (int rank = 1; rank < topology.ranks(); ++rank) all.front().push_back({rank});
  for (const auto& side : {inside, outside})
    if (auto groups = images(topology, symmetries, side)) all.push_back(std::move(*groups));
  for (Groups& groups : tight_for_trees(topology)) all.push_back(std::move(groups));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  all.erase(std::remove_if(all.begin(), all.end(), [](const Groups& groups) { return groups.size() < 2; }), all.end());
  return all;
}

}  // namespace

std::vector<Partition> candidate_partitions(const Network& network, const Symmetries& symmetries, const Marks& cut) {
  const Topology& topology = *network.topology;
  const auto has = [&](bool SwitchSkills::*skill) {
    return std::any_of(topology.vertices().begin(), topology.vertices().end(),
                       [&](const Vertex& vertex) { return vertex.skills.*skill; });
  };
  const bool sent = !has(&SwitchSkills::multicasts), received = !has(&SwitchSkills::reduces);
  const Topology turned = topology.reversed();
  Network against = network;
  against.topology = &turned;
  std::vector<Partition> partitions;
  for (const Groups& groups : candidates(topology, symmetries, cut)) {
    if (sent) partitions.push_back(parts_of(network, groups, true));
    if (received) partitions.push_back(parts_of(against, groups, false));
  }
  return partitions;
}

}  // namespace tutti
