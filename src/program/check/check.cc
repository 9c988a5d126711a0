#include "program/check/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "program/check/check_graph.hpp"
#include "program/check/check_races.hpp"
#include "program/check/check_values.hpp"

namespace tutti {
namespace {

using checking::Checked;
using checking::EventGraph;
using checking::Placement;
using checking::ProgramParts;

/// A program that can run to its end: limits, matching and deadlock are behind it.
struct Runnable {
  ProgramParts parts;
  EventGraph graph;
  std::vector<int> order;
  std::vector<Placement> placements;
};

Checked<Runnable> make_runnable(const Program& program, const CheckOptions& options,
                                const Translations& symmetry = {}) {
  Runnable runnable;
  auto parts = checking::gather_parts(program, options, symmetry);
  if (!parts) return tl::unexpected(std::move(parts.error()));
  runnable.parts = *std::move(parts);
  auto graph = checking::build_graph(runnable.parts);
  if (!graph) return tl::unexpected(std::move(graph.error()));
  runnable.graph = *std::move(graph);
  auto order = checking::order_events(runnable.parts, runnable.graph, options.slots);
  if (!order) return tl::unexpected(std::move(order.error()));
  runnable.order = *std::move(order);
  if (program.out_of_place) runnable.placements.push_back(Placement::out_of_place);
  if (program.in_place) runnable.placements.push_back(Placement::in_place);
  return runnable;
}

Violation in_placement(Violation violation, Placement placement) {
  if (placement == Placement::in_place) violation.message += " (in place)";
  return violation;
}

std::optional<Violation> check_placement(const Runnable& runnable, Placement placement,
                                         checking::ReductionFacts& outcome) {
  const auto& [parts, graph, order, placements] = runnable;
  auto found = checking::check_values_and_result(parts, graph, order, placement);
  if (!found) return std::move(found.error());
  outcome.roundings = std::max(outcome.roundings, found->roundings);
  outcome.rank_order = outcome.rank_order && found->rank_order;
  outcome.ordered_operands = outcome.ordered_operands && found->ordered_operands;
  outcome.is_same_in_place = found->is_same_in_place;
  return std::nullopt;
}

CheckReport check_with(const Program& program, const CheckOptions& options, const Translations& symmetry) {
  CheckReport report;
  auto runnable = make_runnable(program, options, symmetry);
  if (!runnable) {
    report.violation = std::move(runnable.error());
    return report;
  }
  auto races = checking::check_races(runnable->parts, runnable->graph, runnable->order, runnable->placements);
  checking::ReductionFacts outcome;
  for (std::size_t i = 0; i < races.size(); ++i) {
    const Placement placement = runnable->placements[i];
    if (races[i])
      report.violation = std::move(races[i]);
    else if (!outcome.is_same_in_place)
      report.violation = check_placement(*runnable, placement, outcome);
    if (!report.violation) continue;
    report.violation = in_placement(*std::move(report.violation), placement);
    return report;
  }
  report.roundings = outcome.roundings;
  report.rank_order = outcome.rank_order;
  report.ordered_operands = outcome.ordered_operands;
  return report;
}

using Marks = std::vector<std::vector<bool>>;

Checked<Marks> find_marks(const Runnable& runnable) {
  Checked<Marks> marks;
  auto races = checking::check_races(runnable.parts, runnable.graph, runnable.order, runnable.placements);
  for (std::size_t i = 0; i < races.size(); ++i) {
    const Placement placement = runnable.placements[i];
    if (races[i]) return tl::unexpected(in_placement(*std::move(races[i]), placement));
    auto found = checking::find_completing_steps(runnable.parts, runnable.graph, runnable.order, placement);
    if (!found) return tl::unexpected(in_placement(std::move(found.error()), placement));
    if (placement != runnable.placements.front() && *found != *marks)
      return tl::unexpected(checking::broken(Violation::Rule::values, {},
                                             "other steps complete the reduction in place than out of place"));
    marks = std::move(found);
  }
  return marks;
}

}  // namespace

std::string_view name_of(Violation::Rule rule) {
  static constexpr std::string_view kNames[] = {"limits", "matching", "deadlock", "races", "values", "result"};
  const auto index = static_cast<std::size_t>(rule);
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::string Violation::to_string() const {
  std::string text(name_of(rule));
  if (rank >= 0) text += fmt::format(": rank {}", rank);
  if (worker >= 0) text += fmt::format(", worker {}", worker);
  if (step >= 0) text += fmt::format(", step {}", step);
  return text + ": " + message;
}

CheckReport check(const Program& program, const CheckOptions& options) { return check_with(program, options, {}); }

CheckReport check_translated(const Program& program, const Translations& symmetry, const CheckOptions& options) {
  return check_with(program, options, symmetry);
}

std::optional<Violation> check_limits(const Program& program, const CheckOptions& options) {
  auto parts = checking::gather_parts(program, options);
  if (parts) return std::nullopt;
  return std::move(parts.error());
}

Result<Program> annotate_completion(const Program& program) {
  auto runnable = make_runnable(program, CheckOptions{});
  if (!runnable) return fail(ErrorCode::invalid_argument, runnable.error().to_string());
  const Checked<Marks> marks = find_marks(*runnable);
  if (!marks) return fail(ErrorCode::invalid_argument, marks.error().to_string());
  ProgramParts& parts = runnable->parts;
  for (std::size_t number = 0; number < parts.workers.size(); ++number) {
    const auto& [rank, worker] = parts.workers[number];
    auto& steps = parts.ranks[static_cast<std::size_t>(rank)].workers[static_cast<std::size_t>(worker)].steps;
    for (std::size_t step = 0; step < steps.size(); ++step) steps[step].completes = (*marks)[number][step];
  }
  Program annotated = program;
  annotated.symmetry = {};
  annotated.part = make_flat(program.name, program.shape, std::move(parts.ranks)).part;
  return annotated;
}

}  // namespace tutti
