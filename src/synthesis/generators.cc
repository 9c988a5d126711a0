#include "synthesis/generators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "algorithm/algorithm.hpp"
#include "program/check/check.hpp"
#include "simulation/references.hpp"
#include "synthesis/exchange/exchange.hpp"
#include "synthesis/greedy/greedy.hpp"
#include "synthesis/lower.hpp"
#include "synthesis/taccl/taccl.hpp"
#include "synthesis/trees/packed_trees.hpp"
#include "synthesis/trees/two_way_trees.hpp"

namespace tutti {

namespace {

constexpr int kMostRanksForInstances = 256;  // of packed trees: beyond, one alone takes long to simulate

/// Whether every link has one like it in the other direction, so that what can be sent can be sent backwards.
bool is_even(const Topology& topology) {
  using Key = std::tuple<int, int, double, double>;
  std::vector<Key> there, back;
  for (const Link& link : topology.links()) {
    there.emplace_back(link.from, link.to, link.capacity.value(), link.latency.value());
    back.emplace_back(link.to, link.from, link.capacity.value(), link.latency.value());
  }
  std::sort(there.begin(), there.end());
  std::sort(back.begin(), back.end());
  return there == back;
}

/// The schedule with every chunk cut into `parts`.
Schedule subdivided(const Schedule& schedule, int parts) {
  if (parts == 1) return schedule;
  Schedule fine{schedule.generator, schedule.shape, {}, schedule.symmetry};
  fine.shape.chunks *= parts;
  fine.transfers.reserve(schedule.transfers.size() * static_cast<std::size_t>(parts));
  for (const Transfer& transfer : schedule.transfers)
    for (int part = 0; part < parts; ++part)
      fine.transfers.push_back({transfer.chunk * parts + part, transfer.from, transfer.to, transfer.channel});
  return fine;
}

/// Without what is of no use, if it keeps its promises: generators check nothing themselves.
Result<Schedule> examined(const SynthesisTask& task, Result<Schedule> schedule) {
  if (!schedule) return schedule;
  if (const Status right = check_schedule(*schedule); !right) return tl::unexpected(right.error());
  if (task.lowering.channels == ChannelPolicy::one)
    for (Transfer& transfer : schedule->transfers) transfer.channel = 0;
  return without_dead_ends(std::move(*schedule));
}

/// A schedule of a copying collective, made on one of the two topologies.
using MakeSchedule = std::function<Result<Schedule>(Routes& routes, Collective collective)>;

LowerOptions options_for(SynthesisTask& task, std::string_view generator, int instances) {
  std::string name{generator};
  std::replace(name.begin(), name.end(), ' ', '_');
  const LoweringWishes& wishes = task.lowering;
  constexpr int kMostTurns = 4;
  return {.name = name,
          .instances = wishes.instances.value_or(instances),
          .channels = wishes.channels == ChannelPolicy::most ? kMostTurns : 1,
          .routes_period = wishes.channels == ChannelPolicy::one ? 1 : task.routes.period(),
          .merges = wishes.merges,
          .reuses_scratch = wishes.reuses_scratch};
}

Result<Program> all_reduce_of(SynthesisTask& task, const MakeSchedule& make, Collective copies,
                              const LowerOptions& options) {
  const auto there = examined(task, make(task.routes, copies));
  if (!there) return tl::unexpected(there.error());
  if (task.even) return lower_all_reduce(*there, *there, options);
  const auto back = examined(task, make(task.backward_routes, copies));
  if (!back) return tl::unexpected(back.error());
  const int chunks = std::lcm(there->shape.chunks, back->shape.chunks);
  return lower_all_reduce(subdivided(*back, chunks / back->shape.chunks),
                          subdivided(*there, chunks / there->shape.chunks), options);
}

/// The task's collective out of schedules that copy; `through_root`: an all_reduce is a reduce and a broadcast.
Result<Program> program_of(SynthesisTask& task, const MakeSchedule& make, std::string_view generator, int instances,
                           bool through_root = false) {
  const LowerOptions options = options_for(task, generator, instances);
  const auto forward = [&](Collective collective) -> Result<Program> {
    const auto schedule = examined(task, make(task.routes, collective));
    return schedule ? lower(*schedule, options) : tl::unexpected(schedule.error());
  };
  const auto backward = [&](Collective collective) -> Result<Program> {
    const auto schedule = examined(task, make(task.backward_routes, collective));
    return schedule ? lower_reversed(*schedule, options) : tl::unexpected(schedule.error());
  };
  switch (task.collective) {
    case Collective::reduce_scatter:
      return backward(Collective::all_gather);
    case Collective::reduce:
      return backward(Collective::broadcast);
    case Collective::gather:
      return backward(Collective::scatter);
    case Collective::all_reduce:
      return all_reduce_of(task, make, through_root ? Collective::broadcast : Collective::all_gather, options);
    default:
      return forward(task.collective);
  }
}

/// Whether a sketch says which way chunks may take, beyond the links it leaves: trees and built-in algorithms would not
/// know.
bool is_restricted(const SynthesisTask& task) {
  if (task.plan == nullptr) return false;
  const auto& senders = task.plan->sender_of;
  return (task.plan->straight_between_nodes && task.topology.nodes() > 2) ||
         std::any_of(senders.begin(), senders.end(), [](int sender) { return sender >= 0; });
}

bool knows_no_sketch(const SynthesisTask& task) { return !is_restricted(task); }

void make_library(SynthesisTask& task, std::uint64_t, Deadline deadline, const Propose& propose) {
  const Layout layout = layout_of(task.topology);
  for (const Algorithm& algorithm : algorithms()) {
    if (deadline.passed()) return;
    if (!algorithm.supports(task.collective, layout)) continue;
    auto program = make_program(algorithm.name, task.collective, layout, {.root = task.root});
    if (!program || program->one_sided) continue;
    if (!propose({std::string(algorithm.name), std::move(*program), 0})) return;
  }
}

bool packs(const SynthesisTask& task) {
  return !is_restricted(task) && task.collective != Collective::all_to_all && task.collective != Collective::gather &&
         task.collective != Collective::scatter;
}

/// How often to instantiate trees. Workers that keep the order of their steps wait for one another here and there, and
/// the more, the fuller all links are; of several instances another goes on meanwhile.
std::vector<int> instances_of_trees(SynthesisTask& task, int channels) {
  constexpr int kSeveral = 4;
  if (task.lowering.instances || task.topology.ranks() > kMostRanksForInstances ||
      kSeveral * channels > CheckOptions{}.max_channels)
    return {1};
  return {1, kSeveral};
}

std::string tree_name(std::string_view trees, int instances) {
  return instances == 1 ? std::string(trees) : fmt::format("{}, {} instances", trees, instances);
}

/// An all_reduce by trees that serve both ways.
void make_two_way(SynthesisTask& task, Deadline deadline, const Propose& propose) {
  const double enough = task.bound == nullptr ? 0 : task.bound->for_large().rate.value();
  auto trees = pack_two_way_trees(task.routes, {.enough = enough}, Deadline::in(deadline.seconds_left() / 4));
  if (!trees) return;
  const auto down = examined(task, std::move(trees->down)), up = examined(task, std::move(trees->up));
  if (!down || !up) return;
  for (const int instances : instances_of_trees(task, 2 * task.routes.period())) {
    auto program = lower_all_reduce(*up, *down, options_for(task, "two-way trees", instances));
    if (!program || !propose({tree_name("two-way trees", instances), std::move(*program), 0})) return;
  }
}

void make_packed(SynthesisTask& task, std::uint64_t, Deadline deadline, const Propose& propose) {
  std::map<std::pair<const Routes*, Collective>, Schedule> made;
  const auto make = [&](Routes& routes, Collective collective) -> Result<Schedule> {
    const auto known = made.find({&routes, collective});
    if (known != made.end()) return known->second;
    auto packed = pack_trees(routes, collective, {.root = task.root}, deadline.seconds_left());
    if (!packed) return tl::unexpected(packed.error());
    return made.emplace(std::pair(&routes, collective), std::move(packed->schedule)).first->second;
  };
  for (const int instances : instances_of_trees(task, 2 * task.routes.period())) {
    auto program = program_of(task, make, "packed trees", instances);
    if (!program) break;
    if (!propose({tree_name("packed trees", instances), std::move(*program), 0})) return;
  }
  if (task.collective == Collective::all_reduce) make_two_way(task, deadline, propose);
}

bool exchanges(const SynthesisTask& task) { return task.collective == Collective::all_to_all; }

void make_exchanged(SynthesisTask& task, std::uint64_t, Deadline deadline, const Propose& propose) {
  const double enough = task.bound == nullptr ? 0 : task.bound->for_large().rate.value();
  for (const int chunks : {ExchangeOptions{}.most_chunks, 1}) {  // whole blocks are better where latency counts
    const ExchangeOptions options{.most_chunks = chunks, .enough = enough, .plan = task.plan};
    auto exchange = make_exchange(task.routes, options, deadline.seconds_left());
    if (!exchange) return;
    const std::string generator =
        fmt::format("{}{}", exchange->schedule.generator, chunks == 1 ? ", whole blocks" : "");
    const auto schedule = examined(task, std::move(exchange->schedule));
    if (!schedule) return;
    auto program = lower(*schedule, options_for(task, "exchange", 1));
    if (!program || !propose({generator, std::move(*program), 0})) return;
  }
}

bool is_greedy(const SynthesisTask& task) { return task.collective != Collective::all_to_all; }

/// How many chunks a block is cut into, to try: few in any case, many where each still has some size, since then more
/// of them fill the links better.
std::vector<int> chunks_for_greedy(const SynthesisTask& task, std::uint64_t bytes) {
  constexpr int kFew = 8, kMany = 128;
  constexpr std::uint64_t kLeastBytes = 16 << 10;
  constexpr std::uint64_t kMostTransfers = 300'000;  // seconds to match, and as long to simulate
  const auto ranks = static_cast<std::uint64_t>(task.topology.ranks());
  std::vector<int> counts;
  for (int chunks = 1; chunks <= kMany; chunks *= 2) {
    const auto count = static_cast<std::uint64_t>(chunks);
    if (chunks > kFew && (bytes / ranks / count < kLeastBytes || ranks * ranks * count > kMostTransfers)) break;
    counts.push_back(chunks);
  }
  return counts;
}

void make_greedy(SynthesisTask& task, std::uint64_t bytes, Deadline deadline, const Propose& propose) {
  for (const std::uint64_t seed : {1U, 2U, 3U})
    for (const int chunks : chunks_for_greedy(task, bytes)) {
      for (const bool through_root : {false, true}) {
        if (deadline.passed()) return;
        if (through_root && task.collective != Collective::all_reduce) continue;
        const auto make = [&](Routes& routes, Collective collective) {
          const GreedyOptions options{.root = task.root,
                                      .chunks = chunks,
                                      .bytes = static_cast<double>(bytes),
                                      .seed = seed,
                                      .plan = task.plan_for(routes)};
          return greedy_schedule(routes, collective, options, deadline.seconds_left());
        };
        const std::string name =
            fmt::format("greedy {} chunks, seed {}{}", chunks, seed, through_root ? ", to a root and back" : "");
        auto program = program_of(task, make, "greedy", 1, through_root);
        if (program && !propose({name, std::move(*program), 0})) return;
      }
    }
}

#ifdef TUTTI_TACCL
bool is_sketched(const SynthesisTask& task) {
  return task.sketch != nullptr &&
         (task.collective == Collective::all_gather || task.collective == Collective::all_to_all ||
          task.collective == Collective::reduce_scatter || task.collective == Collective::all_reduce);
}

void make_taccl(SynthesisTask& task, std::uint64_t bytes, Deadline deadline, const Propose& propose) {
  const auto result = taccl_synthesize(task.sketch->profile, task.sketch->sketch, task.collective,
                                       {.bytes = static_cast<double>(bytes), .seconds = deadline.seconds_left()});
  if (!result) return;
  const LowerOptions options = options_for(task, "taccl", 1);
  auto program = task.collective == Collective::reduce_scatter ? lower_reversed(result->plan.schedule, options)
                 : result->reduction ? lower_all_reduce(result->reduction->schedule, result->plan.schedule, options)
                                     : lower(result->plan.schedule, options);
  if (program) propose({"taccl", std::move(*program), result->seconds});
}
#endif

constexpr Generator kGenerators[] = {
    {.name = "library", .help = "the algorithms built into tutti", .fits = knows_no_sketch, .make = make_library},
    {.name = "trees", .help = "packed trees: best for large sizes", .fits = packs, .make = make_packed},
    {.name = "exchange",
     .help = "flows of an all-to-all, as paths and rounds",
     .fits = exchanges,
     .make = make_exchanged},
    {.name = "greedy",
     .help = "matching chunks with free links: best where latency counts",
     .for_each_size = true,
     .fits = is_greedy,
     .make = make_greedy},
#ifdef TUTTI_TACCL
    {.name = "taccl",
     .help = "TACCL's three stages, for a sketch",
     .for_each_size = true,
     .in_any_case = true,
     .fits = is_sketched,
     .make = make_taccl},
#endif
};

}  // namespace

namespace {

/// Chunks leave a node of the reversed topology where they come into one of the other: through the GPU that is to the
/// others what the sender's partners are. Where a sender has partners in several places, any GPU will do.
SketchPlan reversed(const SketchPlan& plan, Routes& routes) {
  SketchPlan turned = plan;
  const Topology& topology = routes.topology();
  const auto node_of = [&](int rank) { return topology.vertex(topology.gpu(rank)).node; };
  const auto ranks_of_node = [&](int node) {
    std::vector<int> ranks;
    for (int rank = 0; rank < topology.ranks(); ++rank)
      if (node_of(rank) == node) ranks.push_back(rank);
    return ranks;
  };
  for (std::size_t rank = 0; rank < plan.sender_of.size(); ++rank) {
    const int sender = plan.sender_of[rank];
    if (sender < 0) continue;
    int place = -1;
    for (const int partner : routes.reached(sender)) {
      if (node_of(partner) == node_of(sender)) continue;
      const auto peers = ranks_of_node(node_of(partner));
      const int found = static_cast<int>(std::find(peers.begin(), peers.end(), partner) - peers.begin());
      if (place >= 0 && place != found) place = topology.ranks();
      if (place < 0) place = found;
    }
    const auto own = ranks_of_node(node_of(static_cast<int>(rank)));
    const bool known = place >= 0 && place < static_cast<int>(own.size());
    turned.sender_of[rank] = known ? own[static_cast<std::size_t>(place)] : -1;
  }
  return turned;
}

}  // namespace

SynthesisTask::SynthesisTask(const Topology& given, const SynthesisRequest& request)
    : topology(given),
      backwards(given.reversed()),
      even(is_even(given)),
      routes(topology),
      backward_routes(backwards),
      collective(request.collective),
      root(request.root),
      sketch(request.sketch),
      plan(sketch == nullptr ? nullptr : &sketch->plan),
      lowering(request.lowering) {
  if (plan != nullptr) backward_plan = reversed(*plan, routes);
}

std::span<const Generator> generators() { return kGenerators; }

}  // namespace tutti
