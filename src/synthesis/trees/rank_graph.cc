#include "synthesis/trees/rank_graph.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "bound/max_flow.hpp"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr int kMostNodesAllJoined = 128;

/// Which pairs a wiring has.
class Wires {
 public:
  Wires(const Topology& topology, Wiring wiring) : topology_(topology), wiring_(wiring) {
    std::vector<int> taken(at(topology.nodes() + 1), 0);
    for (int rank = 0; rank < topology.ranks(); ++rank) places_.push_back(taken[at(node_of(rank) + 1)]++);
  }

  bool has(const RankLink& link) const {
    if (wiring_ == Wiring::mesh || is_direct(link)) return true;
    const int from = node_of(link.from), to = node_of(link.to);
    if (from == to) return stays_in_node(link);
    if (places_[at(link.from)] != places_[at(link.to)]) return false;
    const int distance = (to - from + topology_.nodes()) % topology_.nodes();
    return topology_.nodes() <= kMostNodesAllJoined || std::has_single_bit(static_cast<unsigned>(distance));
  }

 private:
  int node_of(int rank) const { return topology_.vertex(topology_.gpu(rank)).node; }

  bool is_direct(const RankLink& link) const { return link.routes.front().size() == 1; }

  bool stays_in_node(const RankLink& link) const {
    return std::all_of(link.routes.front().begin(), link.routes.front().end(), [&](int physical) {
      return topology_.vertex(topology_.link(physical).to).node == node_of(link.from);
    });
  }

  const Topology& topology_;
  Wiring wiring_;
  std::vector<int> places_;  // [rank] among the ranks of its node
};

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

std::vector<RankLink> rank_links_from(Routes& routes, Wiring wiring, int from) {
  const Topology& topology = routes.topology();
  const Wires wires(topology, wiring);
  std::vector<int> reached = routes.reached(from);
  std::rotate(reached.begin(), std::upper_bound(reached.begin(), reached.end(), from), reached.end());
  std::vector<RankLink> links;
  for (const int to : reached) {
    RankLink link{from, to, {}};
    for (int channel = 0; channel < routes.count(from, to); ++channel)
      link.routes.push_back(routes.links(from, to, channel));
    if (wires.has(link)) links.push_back(std::move(link));
  }
  return links;
}

std::vector<RankLink> rank_links(Routes& routes, Wiring wiring) {
  const int ranks = routes.topology().ranks();
  std::vector<RankLink> links;
  for (int from = 0; from < ranks; ++from)
    for (RankLink& link : rank_links_from(routes, wiring, from)) links.push_back(std::move(link));
  // What is shared out one by one then goes evenly around.
  std::stable_sort(links.begin(), links.end(), [&](const RankLink& a, const RankLink& b) {
    return (a.to - a.from + ranks) % ranks < (b.to - b.from + ranks) % ranks;
  });
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
