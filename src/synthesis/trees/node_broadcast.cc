#include "synthesis/trees/node_broadcast.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "synthesis/trees/node_trees.hpp"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kRounding = 1e-9;

/// Ranks by node and place, the root's node first.
using Seating = std::vector<std::vector<int>>;

Result<Seating> seat(Routes& routes, int root) {
  const Topology& topology = routes.topology();
  const auto node_of = [&](int rank) { return topology.vertex(topology.gpu(rank)).node; };
  std::map<int, std::vector<int>> by_node;
  for (int rank = 0; rank < topology.ranks(); ++rank) by_node[node_of(rank)].push_back(rank);
  Seating seating;
  for (auto place = by_node.find(node_of(root)); seating.size() < by_node.size(); ++place) {
    if (place == by_node.end()) place = by_node.begin();
    seating.push_back(place->second);
  }
  if (seating.size() < 2) return fail(ErrorCode::unsupported, "there is only one node");
  for (const auto& ranks : seating) {
    if (ranks.size() != seating.front().size())
      return fail(ErrorCode::unsupported, "nodes have different numbers of GPUs");
    for (std::size_t place = 0; place < ranks.size(); ++place)
      if (ranks != seating.front() && (routes.count(seating.front()[place], ranks[place]) == 0 ||
                                       routes.count(ranks[place], seating.front()[place]) == 0))
        return fail(ErrorCode::unsupported, "GPUs of the same place have no route from node to node");
  }
  return seating;
}

class NodeBroadcasting {
 public:
  NodeBroadcasting(Routes& routes, Seating seating, int root, int trees, double most_time)
      : routes_(routes),
        seating_(std::move(seating)),
        loads_(routes.topology().links().size(), 0),
        most_time_(most_time * trees * (1 + kRounding)) {
    for (const Link& link : routes.topology().links()) seconds_.push_back(1 / link.capacity.value());
    for (int tree = 0; tree < trees; ++tree) {
      GrownTree one{root, 1, {}, std::vector<int>(at(routes.topology().ranks()), -1)};
      one.depth[at(root)] = 0;
      result_.trees.push_back(std::move(one));
    }
  }

  Result<NodeBroadcast> run() {
    const int trees = static_cast<int>(result_.trees.size());
    const std::vector<NodeEdge> edges = make_node_trees(static_cast<int>(seating_.size()), trees);
    const std::vector<int> places = choose_places(trees);
    // Senders of the root's node first, for all trees: what the root can send is needed there.
    for (const NodeEdge& edge : edges)
      if (edge.from == 0 && !reach(edge.tree, 0, seating_[0][at(places[at(edge.colour)])])) return unconnected();
    for (const NodeEdge& edge : edges) {
      const int place = places[at(edge.colour)];
      const int sender = seating_[at(edge.from)][at(place)];
      if (!reach(edge.tree, edge.from, sender)) return unconnected();
      take(edge.tree, sender, seating_[at(edge.to)][at(place)]);
    }
    for (int tree = 0; tree < trees; ++tree)
      for (std::size_t node = 0; node < seating_.size(); ++node)
        if (!reach_all(tree, static_cast<int>(node))) return unconnected();
    return std::move(result_);
  }

 private:
  static tl::unexpected<Error> unconnected() {
    return fail(ErrorCode::unsupported, "GPUs of a node have no routes to one another inside it");
  }

  /// The place whose NIC each colour means: always the one whose links have the least to do.
  std::vector<int> choose_places(int colours) {
    const int count = static_cast<int>(seating_.front().size());
    std::vector<double> busy(seconds_.size(), 0);
    std::vector<int> chosen, times(at(count), 0);
    for (int colour = 0; colour < colours; ++colour) {
      const auto time_after = [&](int place) {
        double time = 0;
        for (const int link : routes_.links(seating_[0][at(place)], seating_[1][at(place)]))
          time = std::max(time, busy[at(link)] + seconds_[at(link)]);
        return std::pair(time, times[at(place)]);
      };
      int best = 0;
      for (int place = 1; place < count; ++place)
        if (time_after(place) < time_after(best)) best = place;
      for (const int link : routes_.links(seating_[0][at(best)], seating_[1][at(best)]))
        busy[at(link)] += seconds_[at(link)];
      ++times[at(best)];
      chosen.push_back(best);
    }
    return chosen;
  }

  bool has(int tree, int rank) const { return result_.trees[at(tree)].depth[at(rank)] >= 0; }

  /// Brings a tree to a GPU of a node it has entered, along the fewest links inside, the least loaded of those.
  bool reach(int tree, int node, int target) {
    if (has(tree, target)) return true;
    std::map<int, std::pair<Cost, int>> best;  // by rank: its cost, and from where
    std::vector<int> open;
    for (const int rank : seating_[at(node)])
      if (has(tree, rank)) {
        best[rank] = {{result_.trees[at(tree)].depth[at(rank)], 0}, -1};
        open.push_back(rank);
      }
    while (!open.empty()) {
      const auto nearest =
          std::min_element(open.begin(), open.end(), [&](int a, int b) { return best[a].first < best[b].first; });
      const int rank = *nearest;
      open.erase(nearest);
      for (const int next : seating_[at(node)]) {
        if (next == rank || !is_inside(rank, next)) continue;
        const Cost cost{best[rank].first.first + 1, std::max(best[rank].first.second, time_after(rank, next))};
        const auto known = best.find(next);
        if (known != best.end() && known->second.first <= cost) continue;
        if (known == best.end()) open.push_back(next);
        best[next] = {cost, rank};
      }
    }
    if (best.find(target) == best.end()) return false;
    std::vector<int> path{target};
    while (best[path.back()].second >= 0) path.push_back(best[path.back()].second);
    for (std::size_t i = path.size(); i-- > 1;) take(tree, path[i], path[i - 1]);
    return true;
  }

  /// Brings a tree to all GPUs of a node. A pair of ranks that no other tree uses comes first: trees that share a pair
  /// wait for one another.
  bool reach_all(int tree, int node) {
    const auto& ranks = seating_[at(node)];
    while (true) {
      Step best{kTooMuch + 1, 0, 0, 0, -1, -1};
      bool done = true;
      for (const int to : ranks) {
        if (has(tree, to)) continue;
        done = false;
        for (const int from : ranks)
          if (has(tree, from) && is_inside(from, to)) {
            const double time = time_after(from, to);
            const int depth = result_.trees[at(tree)].depth[at(from)];
            best = std::min(best, {strain(time), trees_on(from, to), depth, time, from, to});
          }
      }
      if (done) return true;
      const auto [strain, trees, depth, time, from, to] = best;
      if (from < 0) return false;
      take(tree, from, to);
    }
  }

  /// A link without any slack never makes up for what it once waited.
  int strain(double time) const { return time > most_time_ ? kTooMuch : time > most_time_ * kComfort ? 1 : 0; }

  int trees_on(int from, int to) const {
    const auto known = link_of_.find({from, to});
    return known == link_of_.end() ? 0 : trees_on_[at(known->second)];
  }

  bool is_inside(int from, int to) {
    const Topology& topology = routes_.topology();
    const std::vector<int> links = routes_.links(from, to);
    const int node = topology.vertex(topology.gpu(from)).node;
    return !links.empty() && std::all_of(links.begin(), links.end(), [&](int link) {
      return topology.vertex(topology.link(link).to).node == node;
    });
  }

  /// Of the busiest link from rank to rank, if it carries one tree more.
  double time_after(int from, int to) {
    double time = 0;
    for (const int link : routes_.links(from, to)) time = std::max(time, (loads_[at(link)] + 1) * seconds_[at(link)]);
    return time;
  }

  void take(int tree, int from, int to) {
    const auto [place, is_new] = link_of_.emplace(std::pair(from, to), static_cast<int>(result_.links.size()));
    if (is_new) {
      RankLink link{from, to, {}};
      for (int channel = 0; channel < routes_.count(from, to); ++channel)
        link.routes.push_back(routes_.links(from, to, channel));
      result_.links.push_back(std::move(link));
      trees_on_.push_back(0);
    }
    ++trees_on_[at(place->second)];
    for (const int link : routes_.links(from, to)) loads_[at(link)] += 1;
    GrownTree& grown = result_.trees[at(tree)];
    grown.links.push_back(place->second);
    grown.depth[at(to)] = grown.depth[at(from)] + 1;
  }

  using Cost = std::pair<int, double>;  // hops, and the time of the busiest link
  /// Strain, trees that share the pair, depth, time, and the pair.
  using Step = std::tuple<int, int, int, double, int, int>;
  static constexpr int kTooMuch = 2;
  static constexpr double kComfort = 0.8;

  Routes& routes_;
  Seating seating_;
  std::vector<double> seconds_, loads_;  // [link] for one byte; trees
  double most_time_;
  std::map<std::pair<int, int>, int> link_of_;
  std::vector<int> trees_on_;  // [link of the result]
  NodeBroadcast result_;
};

}  // namespace

Result<NodeBroadcast> make_node_broadcast(Routes& routes, int root, int trees, double most_time) {
  auto seating = seat(routes, root);
  if (!seating) return tl::unexpected(seating.error());
  return NodeBroadcasting(routes, std::move(*seating), root, trees, most_time).run();
}

}  // namespace tutti
