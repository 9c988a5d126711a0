#include "synthesis/taccl/taccl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "synthesis/elapsed.hpp"
#include "synthesis/taccl/taccl_contiguity.hpp"
#include "synthesis/taccl/taccl_routing.hpp"
#include "synthesis/taccl/taccl_start.hpp"
#include "synthesis/taccl/taccl_sums.hpp"
#include "topology/routes.hpp"

namespace tutti {
namespace {

// Of the time to search.
constexpr double kPartForRouting = 0.5;
constexpr double kPartForOthers = 0.15;  // for other routes; and, for each, for the stages after
constexpr double kPartForJoining = 0.2;
constexpr unsigned kOtherRoutes = 48;
constexpr double kNear = 1e-9;  // relative: what counts as equal

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Routes, orders and times.
struct TacclDraft {
  TacclOrders orders;
  TacclTimes times;
};

/// Sends in the order in which they begin.
TacclPlan plan_of(const TacclProblem& problem, const TacclDraft& draft) {
  TacclPlan plan{{"TACCL", problem.shape, {}}, {}, {}};
  std::vector<int> order(draft.orders.sends.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return draft.times.begins[at(a)] < draft.times.begins[at(b)]; });
  for (const int send : order) {
    const TacclLink& link = problem.model.links[at(draft.orders.sends[at(send)].link)];
    plan.schedule.transfers.push_back({draft.orders.sends[at(send)].chunk, link.from, link.to, 0});
    plan.begins.push_back(draft.times.begins[at(send)]);
    plan.ends.push_back(draft.times.ends[at(send)]);
  }
  return plan;
}

Status check_routes(const Schedule& schedule, const Topology& topology) {
  if (Status status = check_schedule(schedule); !status) return status;
  Routes routes(topology);
  for (const Transfer& transfer : schedule.transfers)
    if (routes.count(transfer.from, transfer.to) == 0)
      return fail(ErrorCode::internal, fmt::format("TACCL sends from rank {} to rank {}, between which {} has no route",
                                                   transfer.from, transfer.to, topology.name()));
  return {};
}

/// One of the copying collectives, on a machine or, for a reduction that is it backwards, on the machine turned round.
class Stages {
 public:
  Stages(const TacclModel& model, Collective collective, bool reduction, double seconds)
      : model_(model), collective_(collective), reduction_(reduction), seconds_(seconds) {}

  /// Adds to the result what this takes.
  Result<TacclPlan> run(const Topology& topology, TacclResult& result) {
    const auto problem = taccl_problem(reduction_ ? reversed(model_) : model_, collective_);
    if (!problem) return tl::unexpected(problem.error());
    const auto routing = route_chunks(*problem, seconds_ * kPartForRouting);
    if (!routing) return tl::unexpected(routing.error());
    TacclDraft draft = order(*problem, routing->trees);
    try_other_routes(*problem, *routing, draft);
    draft.times = improve_joins(*problem, draft.orders, reduction_, std::move(draft.times), seconds_ * kPartForJoining);
    result.seconds += draft.times.seconds;
    result.routed_seconds += routing->cost.time;
    result.routing_gap =
        std::max(result.routing_gap, routing->optimal ? 0 : routing->cost.objective / routing->bound - 1);
    const std::vector<bool> none(draft.orders.sends.size(), false);
    result.ordered_seconds += times_of(*problem, draft.orders, none).seconds;
    result.routing_optimal = result.routing_optimal && routing->optimal;
    result.joining_optimal = result.joining_optimal && draft.times.optimal;
    result.rows += routing->rows;
    result.binaries += routing->binaries;
    TacclPlan plan = plan_of(*problem, draft);
    if (Status status = check_routes(plan.schedule, reduction_ ? topology.reversed() : topology); !status)
      return tl::unexpected(status.error());
    return plan;
  }

 private:
  TacclDraft order(const TacclProblem& problem, const TacclTrees& trees) const {
    TacclDraft draft;
    draft.orders = order_sends(problem, trees);
    draft.times = join_sends(problem, draft.orders, false, seconds_ * kPartForOthers);
    if (!reduction_) return draft;
    draft.orders =
        rearrange_sums(problem, order_reductions(problem, draft.orders, draft.times.begins), seconds_ * kPartForOthers);
    draft.times = join_sends(problem, draft.orders, true, seconds_ * kPartForOthers);
    return draft;
  }

  /// Routes that the first stage finds as good may turn out better in the others; TACCL takes what its solver gives it.
  void try_other_routes(const TacclProblem& problem, const TacclRouting& routing, TacclDraft& draft) const {
    const auto begin = std::chrono::steady_clock::now();
    const double seconds = seconds_ * kPartForOthers;
    const TacclBound bound = bound_of(problem);
    for (unsigned seed = 1; seed <= kOtherRoutes && seconds_since(begin) < seconds; ++seed) {
      const auto trees = find_routes(problem, bound, seed, seconds - seconds_since(begin));
      if (!trees || cost_of(problem, *trees).objective > routing.cost.objective * (1 + kNear)) continue;
      TacclDraft other = order(problem, *trees);
      if (other.times.seconds < draft.times.seconds) draft = std::move(other);
    }
  }

  const TacclModel& model_;
  Collective collective_;
  bool reduction_;
  double seconds_;
};

}  // namespace

Result<TacclResult> taccl_synthesize(const NodeProfile& profile, const Sketch& sketch, Collective collective,
                                     const TacclOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto sketched = apply_sketch(profile, sketch);
  if (!sketched) return tl::unexpected(sketched.error());
  const auto model = taccl_model(profile, sketch, options.bytes);
  if (!model) return tl::unexpected(model.error());
  const bool reduces_only = collective == Collective::reduce_scatter, both = collective == Collective::all_reduce;
  TacclResult result;
  result.bytes = model->chunk_bytes * model->chunks * model->ranks();
  result.routing_optimal = result.joining_optimal = true;
  const double seconds = both ? options.seconds / 2 : options.seconds;
  if (both) {
    auto reduction = Stages(*model, Collective::all_gather, true, seconds).run(sketched->topology, result);
    if (!reduction) return tl::unexpected(reduction.error());
    result.reduction = std::move(*reduction);
  }
  const Collective copies = both || reduces_only ? Collective::all_gather : collective;
  auto plan = Stages(*model, copies, reduces_only, seconds).run(sketched->topology, result);
  if (!plan) return tl::unexpected(plan.error());
  result.plan = std::move(*plan);
  result.solve_seconds = seconds_since(begin);
  return result;
}

}  // namespace tutti
