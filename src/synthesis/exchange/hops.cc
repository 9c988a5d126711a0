#include "synthesis/exchange/hops.hpp"

#include <algorithm>

namespace tutti {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

HopTable::HopTable(Routes& routes, const SketchPlan* plan) : routes_(routes), plan_(plan), first_link_{0} {
  leaving_.resize(at(ranks()));
  first_of_pair_.assign(at(ranks()) * at(ranks()), -1);
  count_of_pair_.assign(first_of_pair_.size(), 0);
}

HopRange HopTable::between(int from, int to) {
  const std::size_t pair = at(from) * at(ranks()) + at(to);
  if (first_of_pair_[pair] < 0) {
    first_of_pair_[pair] = count();
    count_of_pair_[pair] = routes_.count(from, to);
    for (int channel = 0; channel < count_of_pair_[pair]; ++channel) {
      leaving_[at(from)].push_back(count());
      hops_.push_back({from, to, channel});
      const std::vector<int> links = routes_.links(from, to, channel);
      links_.insert(links_.end(), links.begin(), links.end());
      first_link_.push_back(static_cast<int>(links_.size()));
    }
  }
  return {first_of_pair_[pair], count_of_pair_[pair]};
}

void HopTable::add_all(std::size_t most) {
  std::vector<std::vector<int>> reached;
  std::size_t pairs = 0;
  for (int from = 0; from < ranks(); ++from) {
    reached.push_back(routes_.reached(from));
    pairs += reached.back().size();
  }
  const std::vector<int> places = places_in_nodes(topology());
  for (int from = 0; from < ranks(); ++from)
    for (const int to : reached[at(from)])
      if (pairs <= most || node_of(from) == node_of(to) || places[at(from)] == places[at(to)] ||
          routes_.links(from, to).size() == 1)
        between(from, to);
}

void HopTable::add_inside_nodes() {
  std::vector<std::vector<int>> members(at(topology().nodes() + 1));
  for (int rank = 0; rank < ranks(); ++rank) members[at(node_of(rank) + 1)].push_back(rank);
  for (const auto& node : members)
    for (const int from : node)
      for (const int to : node)
        if (from != to && stays_inside(from, to)) between(from, to);
}

bool HopTable::stays_inside(int from, int to) const {
  const std::vector<int> links = routes_.links(from, to);
  return !links.empty() && std::all_of(links.begin(), links.end(), [&](int link) {
    return topology().vertex(topology().link(link).to).node == node_of(from);
  });
}

std::span<const int> HopTable::links(int index) const {
  const std::size_t first = at(first_link_[at(index)]);
  return {links_.data() + first, at(first_link_[at(index) + 1]) - first};
}

bool HopTable::allows(int source, const Hop& hop) const {
  if (plan_ == nullptr || node_of(hop.from) == node_of(hop.to)) return true;
  if (node_of(hop.from) != node_of(source)) return !plan_->straight_between_nodes;
  const int sender = plan_->sender_of.empty() ? -1 : plan_->sender_of[at(source)];
  return sender < 0 || sender == hop.from;
}

bool HopTable::yields(int source, const Hop& hop) const {
  return plan_ != nullptr && plan_->own_chunks_first && source != hop.from && node_of(hop.from) != node_of(hop.to);
}

std::vector<int> places_in_nodes(const Topology& topology) {
  std::vector<int> places, next(at(topology.nodes() + 1), 0);
  for (const int gpu : topology.gpus()) places.push_back(next[at(topology.vertex(gpu).node + 1)]++);
  return places;
}

}  // namespace tutti
