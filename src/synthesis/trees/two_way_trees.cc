#include "synthesis/trees/two_way_trees.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "bound/spanning_trees.hpp"
#include "synthesis/trees/rank_graph.hpp"
#include "synthesis/trees/tree_growth.hpp"
#include "synthesis/trees/tree_schedule.hpp"

namespace tutti {
namespace {

constexpr double kNearEnough = 0.002;   // a loss that is not worth more trees
constexpr int kMostRanksToMesh = 256;   // above, links between all pairs are too many
constexpr int kMostMiddlesToTry = 128;  // evenly spread

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Two ranks that can send to each other.
struct TwoWayLink {
  int one = 0, other = 0;
  int there = 0, back = 0;  // rank links, from one to the other and back

  int end_from(int rank) const { return rank == one ? other : one; }
  int way_from(int rank) const { return rank == one ? there : back; }
};

std::vector<TwoWayLink> edges_of(const std::vector<RankLink>& links) {
  std::map<std::pair<int, int>, int> index;
  for (std::size_t i = 0; i < links.size(); ++i) index[{links[i].from, links[i].to}] = static_cast<int>(i);
  std::vector<TwoWayLink> edges;
  for (const auto& [ends, there] : index)
    if (const auto back = index.find({ends.second, ends.first}); ends.first < ends.second && back != index.end())
      edges.push_back({ends.first, ends.second, there, back->second});
  return edges;
}

/// [rank] = how many edges it is away from a rank in the middle.
std::vector<int> levels_from_the_middle(const std::vector<TwoWayLink>& edges, int ranks) {
  std::vector<std::vector<int>> neighbours(at(ranks));
  for (const TwoWayLink& edge : edges) {
    neighbours[at(edge.one)].push_back(edge.other);
    neighbours[at(edge.other)].push_back(edge.one);
  }
  std::vector<int> best;
  for (int middle = 0; middle < ranks; middle += 1 + ranks / kMostMiddlesToTry) {
    std::vector<int> level(at(ranks), ranks), order{middle};
    level[at(middle)] = 0;
    for (std::size_t next = 0; next < order.size(); ++next)
      for (const int to : neighbours[at(order[next])]) {
        if (level[at(to)] < ranks) continue;
        level[at(to)] = level[at(order[next])] + 1;
        order.push_back(to);
      }
    const auto farthest = [](const std::vector<int>& levels) {
      return *std::max_element(levels.begin(), levels.end());
    };
    if (best.empty() || farthest(level) < farthest(best)) best = std::move(level);
  }
  return best;
}

using Trees = std::vector<std::vector<int>>;  // edges of each

/// Looks for the number of trees that lose least to rounding, on one wiring.
class TwoWayTreeSearch {
 public:
  TwoWayTreeSearch(Routes& routes, Wiring wiring, const TwoWayOptions& options, Deadline deadline)
      : topology_(routes.topology()),
        options_(options),
        deadline_(deadline),
        links_(rank_links(routes, wiring)),
        edges_(edges_of(links_)) {
    const std::vector<int> level = levels_from_the_middle(edges_, topology_.ranks());
    std::stable_sort(edges_.begin(), edges_.end(), [&](const TwoWayLink& one, const TwoWayLink& other) {
      return level[at(one.one)] + level[at(one.other)] < level[at(other.one)] + level[at(other.other)];
    });
  }

  /// Only what is better than `best_rate` by more than a little.
  void run(double best_rate) {
    rate_ = best_rate;
    for (int trees = 1; trees <= options_.most_trees && !deadline_.passed() && !good_enough(); ++trees) {
      double yes = std::isinf(rate_) ? first_rate(trees) : rate_ * (1 - kNearEnough);
      if (!try_rate(trees, yes)) continue;
      for (double no = options_.enough; yes > no * (1 + kNearEnough) && !deadline_.passed();) {
        const double middle = (no + yes) / 2;
        (try_rate(trees, middle) ? yes : no) = middle;
      }
    }
  }

  bool good_enough() const { return rate_ <= options_.enough * (1 + kNearEnough); }
  const Trees& trees() const { return trees_; }
  double rate() const { return rate_; }
  const std::vector<TwoWayLink>& edges() const { return edges_; }
  const std::vector<RankLink>& links() const { return links_; }

 private:
  /// At which every link carries all trees.
  double first_rate(int trees) const {
    double slowest = std::numeric_limits<double>::infinity();
    for (const Link& link : topology_.links()) slowest = std::min(slowest, link.capacity.value());
    return static_cast<double>(links_.size() + 1) / slowest / trees;
  }

  /// Whether so many trees fit when a byte of the vector takes the busiest link `rate` seconds; they are kept then.
  bool try_rate(int trees, double rate) {
    constexpr double kRounding = 1e-9;
    std::vector<std::int64_t> budgets;
    for (const Link& link : topology_.links())
      budgets.push_back(static_cast<std::int64_t>(link.capacity.value() * rate * trees * (1 + kRounding)));
    const auto capacities = share_out(links_, std::move(budgets));
    std::vector<SharedEdge> shared;
    for (const TwoWayLink& edge : edges_)
      shared.push_back({edge.one, edge.other, std::min(capacities[at(edge.there)], capacities[at(edge.back)])});
    auto packed = pack_spanning_trees(topology_.ranks(), shared, trees, deadline_);
    if (!packed || packed->trees.empty()) return false;
    trees_ = std::move(packed->trees);
    rate_ = rate;
    return true;
  }

  const Topology& topology_;
  const TwoWayOptions& options_;
  Deadline deadline_;
  std::vector<RankLink> links_;
  std::vector<TwoWayLink> edges_;
  Trees trees_;
  double rate_ = std::numeric_limits<double>::infinity();
};

/// The same trees, hung up at `root`.
std::vector<GrownTree> rooted(const Trees& trees, const std::vector<TwoWayLink>& edges, int ranks, int root) {
  std::vector<GrownTree> grown;
  for (const auto& tree : trees) {
    std::vector<std::vector<int>> edges_at(at(ranks));
    for (const int edge : tree)
      for (const int rank : {edges[at(edge)].one, edges[at(edge)].other}) edges_at[at(rank)].push_back(edge);
    GrownTree hung{root, 1, {}, std::vector<int>(at(ranks), -1)};
    hung.depth[at(root)] = 0;
    std::vector<int> order{root};
    for (std::size_t next = 0; next < order.size(); ++next)
      for (const int edge : edges_at[at(order[next])]) {
        const int to = edges[at(edge)].end_from(order[next]);
        if (hung.depth[at(to)] >= 0) continue;
        hung.depth[at(to)] = hung.depth[at(order[next])] + 1;
        hung.links.push_back(edges[at(edge)].way_from(order[next]));
        order.push_back(to);
      }
    grown.push_back(std::move(hung));
  }
  return grown;
}

int height_of(const std::vector<GrownTree>& trees) {
  int height = 0;
  for (const GrownTree& tree : trees)
    height = std::max(height, *std::max_element(tree.depth.begin(), tree.depth.end()));
  return height;
}

/// At the rank where the highest is lowest.
std::vector<GrownTree> rooted_best(const Trees& trees, const std::vector<TwoWayLink>& edges, int ranks) {
  std::vector<GrownTree> best;
  for (int root = 0; root < ranks; root += 1 + ranks / kMostMiddlesToTry) {
    auto grown = rooted(trees, edges, ranks, root);
    if (best.empty() || height_of(grown) < height_of(best)) best = std::move(grown);
  }
  return best;
}

/// Every link as the reversed topology has it: with the route of the way back.
std::vector<RankLink> reversed(const std::vector<RankLink>& links) {
  std::map<std::pair<int, int>, const RankLink*> index;
  for (const RankLink& link : links) index[{link.from, link.to}] = &link;
  std::vector<RankLink> turned = links;
  for (RankLink& link : turned)
    if (const auto back = index.find({link.to, link.from}); back != index.end()) link.routes = back->second->routes;
  return turned;
}

}  // namespace

Result<TwoWayTrees> pack_two_way_trees(Routes& routes, const TwoWayOptions& options, Deadline deadline) {
  const int ranks = routes.topology().ranks();
  std::optional<TwoWayTreeSearch> best;
  for (const Wiring wiring : {Wiring::rails, Wiring::mesh}) {
    if (wiring == Wiring::mesh && ranks > kMostRanksToMesh) break;
    TwoWayTreeSearch search(routes, wiring, options, deadline);
    search.run(best ? best->rate() : std::numeric_limits<double>::infinity());
    if (!search.trees().empty()) best.emplace(std::move(search));
    if (best && best->good_enough()) break;
  }
  if (!best && deadline.passed()) return fail(ErrorCode::timed_out, "packing trees for both ways: out of time");
  if (!best) return fail(ErrorCode::unsupported, "no tree of links that lead both ways connects all ranks");
  const auto trees = rooted_best(best->trees(), best->edges(), ranks);
  const Shape shape{Collective::broadcast, ranks, trees.front().root, static_cast<int>(trees.size())};
  PackedTrees down = make_tree_schedule(routes, shape, best->links(), trees);
  PackedTrees up = make_tree_schedule(routes, shape, reversed(best->links()), trees);
  return TwoWayTrees{std::move(down.schedule), std::move(up.schedule), best->rate(), height_of(trees)};
}

}  // namespace tutti
