#include "synthesis/trees/packed_trees.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "bound/cuts.hpp"
#include "synthesis/trees/node_broadcast.hpp"
#include "synthesis/trees/rank_graph.hpp"
#include "synthesis/trees/symmetric_trees.hpp"
#include "synthesis/trees/tree_growth.hpp"
#include "synthesis/trees/tree_schedule.hpp"

namespace tutti {
namespace {

constexpr double kRounding = 1e-9;
constexpr double kNearEnough = 0.002;  // a loss against the bound that is not worth more chunks
constexpr double kGoodLoss = 0.01;     // of symmetric trees: then no others are looked for
constexpr int kMostRanksToPack = 256;  // where there are symmetric trees, however much they lose

/// What is to be packed.
struct Task {
  Routes& routes;
  Network network;
  Collective collective;
  int root;

  int ranks() const { return network.topology->ranks(); }

  std::vector<TreeDemand> demands(int trees) const {
    if (collective == Collective::broadcast) return {{root, trees}};
    std::vector<TreeDemand> all;
    for (int rank = 0; rank < ranks(); ++rank) all.push_back({rank, trees});
    return all;
  }

  /// The least time in which each link can carry its share of `1` tree for each root, in trees over capacity.
  double least_time() const {
    const Topology& topology = *network.topology;
    if (collective == Collective::broadcast) {
      const Marks cut = tightest_broadcast_cut(network, topology.gpu(root), topology.gpus());
      return 1 / static_cast<double>(network.capacity_out_of(cut));
    }
    const Marks cut = tightest_gather_cut(network, topology.gpus());
    return gpus_in(topology, cut) / static_cast<double>(network.capacity_out_of(cut));
  }

  /// Whole trees that fit on each physical link in the given time.
  std::vector<std::int64_t> budgets(double time) const {
    std::vector<std::int64_t> whole;
    for (const std::int64_t capacity : network.capacity)
      whole.push_back(static_cast<std::int64_t>(static_cast<double>(capacity) * time * (1 + kRounding)));
    return whole;
  }
};

/// A graph of ranks that carries so many trees for each root.
struct TreePlan {
  int trees = 0;
  double loss = 0;  // of time against the least, as a share
  std::shared_ptr<const std::vector<RankLink>> links;
  std::vector<std::int64_t> capacities;
};

/// Looks for the number of trees and the wiring that lose the least to rounding and to guessing.
class TreePlanSearch {
 public:
  TreePlanSearch(Task& task, int most_trees, Deadline deadline)
      : task_(task), most_trees_(most_trees), deadline_(deadline), least_(task.least_time()) {}

  Result<TreePlan> run() {
    for (const Wiring wiring : {Wiring::rails, Wiring::mesh}) {
      if (good_enough()) break;
      links_ = std::make_shared<std::vector<RankLink>>(rank_links(task_.routes, wiring));
      for (int trees = 1; trees <= most_trees_ && !good_enough(); ++trees) {
        if (deadline_.passed() && !best_) return fail(ErrorCode::timed_out, "packing trees: out of time at the start");
        if (deadline_.passed()) break;
        improve_with(trees);
      }
    }
    if (!best_) return fail(ErrorCode::internal, "no wiring of the switches connects all ranks");
    return std::move(*best_);
  }

 private:
  bool good_enough() const { return best_ && best_->loss <= kNearEnough; }

  /// Whether so many trees fit if the loss is `loss`; then they are the best so far.
  bool try_loss(int trees, double loss) {
    auto capacities = share_out(*links_, task_.budgets(least_ * trees * (1 + loss)));
    if (!carries(task_.ranks(), *links_, capacities, task_.demands(trees))) return false;
    best_ = TreePlan{trees, loss, links_, std::move(capacities)};
    return true;
  }

  void improve_with(int trees) {
    double no = 0, yes = best_ ? best_->loss - kNearEnough : 1;
    if (try_loss(trees, 0)) return;
    if (best_ && !try_loss(trees, yes)) return;
    while (!best_ && !try_loss(trees, yes)) {
      if (yes > kMostLoss) return;
      yes *= 4;
    }
    while (yes - no > kNearEnough && !deadline_.passed()) {
      const double middle = (no + yes) / 2;
      (try_loss(trees, middle) ? yes : no) = middle;
    }
  }

  static constexpr double kMostLoss = 1000;

  Task& task_;
  int most_trees_;
  Deadline deadline_;
  double least_;
  std::shared_ptr<const std::vector<RankLink>> links_;
  std::optional<TreePlan> best_;
};

/// Whether `one` is the better broadcast: the faster, and of two as fast the one whose pipeline is filled sooner.
bool is_better(const PackedTrees& one, const PackedTrees& other) {
  if (one.rate < other.rate * (1 - kNearEnough)) return true;
  if (other.rate < one.rate * (1 - kNearEnough)) return false;
  const auto filling = [](const PackedTrees& trees) { return trees.height * trees.schedule.shape.chunks; };
  return filling(one) < filling(other);
}

/// By Edmonds' theorem, on the graph of ranks. Trees of a broadcast are few enough to try more than one way.
Result<PackedTrees> pack_freely(Task& task, int most_trees, Deadline deadline) {
  const auto plan = TreePlanSearch(task, most_trees, deadline).run();
  if (!plan) return tl::unexpected(plan.error());
  const Shape shape{task.collective, task.ranks(), task.root, plan->trees};
  std::vector preferences{Preference::fewest_ways};
  if (task.collective == Collective::broadcast) preferences = {Preference::straight_on, Preference::fewest_ways};
  std::optional<PackedTrees> best;
  for (const Preference preference : preferences) {
    const auto trees =
        grow_trees(task.ranks(), *plan->links, plan->capacities, task.demands(plan->trees), preference, deadline);
    if (!trees && !best) return tl::unexpected(trees.error());
    if (!trees) break;
    auto packed = make_tree_schedule(task.routes, shape, *plan->links, *trees);
    if (!best || is_better(packed, *best)) best = std::move(packed);
  }
  return std::move(*best);
}

/// Through nodes, where the machine has some; else, and where that is not good enough, by Edmonds' theorem.
Result<PackedTrees> pack_broadcast(Task& task, int most_trees, Deadline deadline) {
  const double least = task.least_time() / task.network.capacity_unit.value();
  std::optional<PackedTrees> best;
  for (int trees = 1; trees <= most_trees && !deadline.passed(); ++trees) {
    const auto made = make_node_broadcast(task.routes, task.root, trees, least);
    if (!made) break;
    auto packed =
        make_tree_schedule(task.routes, {task.collective, task.ranks(), task.root, trees}, made->links, made->trees);
    if (!best || is_better(packed, *best)) best = std::move(packed);
  }
  if (best && (best->rate <= least * (1 + kGoodLoss) || task.ranks() > kMostRanksToPack)) return std::move(*best);
  auto packed = pack_freely(task, most_trees, deadline);
  if (best && (!packed || is_better(*best, *packed))) return std::move(*best);
  return packed;
}

Result<PackedTrees> pack_all_gather(Task& task, int most_trees, Deadline deadline) {
  const auto symmetric = find_symmetric_trees(task.routes, {.most_trees = most_trees}, deadline.seconds_left());
  if (symmetric && (symmetric->loss <= kGoodLoss || task.ranks() > kMostRanksToPack))
    return expand(task.routes, *symmetric);
  auto packed = pack_freely(task, most_trees, deadline);
  if (symmetric && (!packed || symmetric->rate <= packed->rate)) return expand(task.routes, *symmetric);
  return packed;
}

Status check_arguments(const Topology& topology, Collective collective, int root) {
  if (collective != Collective::all_gather && collective != Collective::broadcast)
    return fail(ErrorCode::unsupported,
                fmt::format("trees are packed for all_gather and broadcast, not for {}", name_of(collective)));
  if (root < 0 || root >= topology.ranks())
    return fail(ErrorCode::invalid_argument, fmt::format("root {} is no rank; there are {}", root, topology.ranks()));
  return {};
}

}  // namespace

Result<PackedTrees> pack_trees(Routes& routes, Collective collective, const PackingOptions& options,
                               double seconds_limit) {
  const Deadline deadline = Deadline::in(seconds_limit);
  const int root = collective == Collective::broadcast ? options.root : 0;
  if (Status status = check_arguments(routes.topology(), collective, root); !status)
    return tl::unexpected(status.error());
  auto network = Network::of(routes.topology());
  if (!network) return tl::unexpected(network.error());
  Task task{routes, std::move(*network), collective, root};
  if (task.ranks() == 1) return make_tree_schedule(routes, {collective, 1, root, 1}, {}, {});
  if (collective == Collective::all_gather) return pack_all_gather(task, options.most_trees, deadline);
  return pack_broadcast(task, options.most_trees, deadline);
}

}  // namespace tutti
