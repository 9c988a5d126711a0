#include "synthesis/rank_graph.hpp"

#include <algorithm>
#include <bit>

#include "synthesis/max_flow.hpp"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Where a rank stands: its node, and its place among the ranks of that node.
struct Seat {
  int node = 0;
  int place = 0;
};

std::vector<Seat> seats_of(const Topology& topology) {
  std::vector<int> taken(at(topology.nodes() + 1), 0);
  std::vector<Seat> seats;
  for (const int gpu : topology.gpus()) {
    const int node = topology.vertex(gpu).node;
    seats.push_back({node, taken[at(node + 1)]++});
  }
  return seats;
}

bool stays_in_node(const Topology& topology, const RankLink& link) {
  const int node = topology.vertex(topology.gpu(link.from)).node;
  return std::all_of(link.routes.front().begin(), link.routes.front().end(),
                     [&](int physical) { return topology.vertex(topology.link(physical).to).node == node; });
}

bool wires(Wiring wiring, const Topology& topology, const RankLink& link, const Seat& from, const Seat& to) {
  if (wiring == Wiring::mesh) return true;
  if (from.node == to.node) return stays_in_node(topology, link);
  if (from.place != to.place) return false;
  const int distance = (to.node - from.node + topology.nodes()) % topology.nodes();
  return wiring == Wiring::rails || std::has_single_bit(static_cast<unsigned>(distance));
}

bool is_direct(const Topology& topology, const RankLink& link) {
  return link.routes.front().size() == 1 && topology.link(link.routes.front().front()).from == topology.gpu(link.from);
}

/// Pairs that still get more, and how many of them each physical link serves.
class Sharing {
 public:
  Sharing(const std::vector<RankLink>& links, std::vector<std::int64_t> budgets)
      : links_(links), left_(std::move(budgets)), users_(left_.size(), 0), shares_(links.size(), 0) {
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (links[i].routes.size() > 1) {
        for (const auto& route : links[i].routes) shares_[i] += left_[at(route.front())];
        continue;
      }
      active_.push_back(i);
      for (const int link : links[i].routes.front()) ++users_[at(link)];
    }
  }

  std::vector<std::int64_t> run() {
    while (!active_.empty()) {
      give_evenly();
      settle_tight();
    }
    return std::move(shares_);
  }

 private:
  void give(std::size_t pair, std::int64_t amount) {
    shares_[pair] += amount;
    for (const int link : links_[pair].routes.front()) left_[at(link)] -= amount;
  }

  std::int64_t least(std::size_t pair, bool for_all_users) const {
    std::int64_t room = std::numeric_limits<std::int64_t>::max();
    for (const int link : links_[pair].routes.front())
      room = std::min(room, for_all_users ? left_[at(link)] / users_[at(link)] : left_[at(link)]);
    return room;
  }

  void give_evenly() {
    std::int64_t share = std::numeric_limits<std::int64_t>::max();
    for (const std::size_t pair : active_) share = std::min(share, least(pair, true));
    if (share > 0)
      for (const std::size_t pair : active_) give(pair, share);
  }

  /// Pairs on links that have less left than users: one unit each while it lasts, then no more.
  void settle_tight() {
    std::vector<std::size_t> tight, others;
    for (const std::size_t pair : active_) (least(pair, true) == 0 ? tight : others).push_back(pair);
    for (const std::size_t pair : tight)
      if (least(pair, false) > 0) give(pair, 1);
    for (const std::size_t pair : tight)
      for (const int link : links_[pair].routes.front()) --users_[at(link)];
    active_ = std::move(others);
  }

  const std::vector<RankLink>& links_;
  std::vector<std::int64_t> left_;  // [physical link]
  std::vector<std::int64_t> users_;
  std::vector<std::int64_t> shares_;
  std::vector<std::size_t> active_;
};

}  // namespace

std::vector<RankLink> rank_links(Routes& routes, Wiring wiring) {
  const Topology& topology = routes.topology();
  const std::vector<Seat> seats = seats_of(topology);
  std::vector<RankLink> links;
  // By distance first: what is given out one by one then goes evenly around.
  for (int distance = 1; distance < topology.ranks(); ++distance)
    for (int from = 0; from < topology.ranks(); ++from) {
      const int to = (from + distance) % topology.ranks();
      const int count = routes.count(from, to);
      if (count == 0) continue;
      RankLink link{from, to, {}};
      for (int channel = 0; channel < count; ++channel) link.routes.push_back(routes.links(from, to, channel));
      if (is_direct(topology, link) || wires(wiring, topology, link, seats[at(from)], seats[at(to)]))
        links.push_back(std::move(link));
    }
  return links;
}

std::vector<std::int64_t> share_out(const std::vector<RankLink>& links, std::vector<std::int64_t> budgets) {
  return Sharing(links, std::move(budgets)).run();
}

bool carries(int ranks, const std::vector<RankLink>& links, const std::vector<std::int64_t>& capacities,
             const std::vector<TreeDemand>& demands) {
  MaxFlow<std::int64_t> flow(ranks + 1);
  for (std::size_t i = 0; i < links.size(); ++i) flow.add_arc(links[i].from, links[i].to, capacities[i]);
  std::int64_t all = 0;
  for (const TreeDemand& demand : demands) {
    flow.add_arc(ranks, demand.root, demand.copies);
    all += demand.copies;
  }
  flow.finish();
  for (int sink = 0; sink < ranks; ++sink)
    if (flow.solve(ranks, sink, all) < all) return false;
  return true;
}

}  // namespace tutti
