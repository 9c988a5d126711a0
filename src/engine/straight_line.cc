#include "engine/straight_line.hpp"

#include <algorithm>
#include <optional>

#include "engine/bound_plan.hpp"

namespace tutti {
namespace {

std::optional<StraightStep> straighten(const BoundPlan& bound, const PlanWorker& worker, const PlanStep& ready) {
  const Step& step = ready.step;
  if ((sends(step.kind) && receives(step.kind)) || !ready.guards.empty()) return std::nullopt;
  StraightStep made{&worker, &ready};
  made.worker_index = static_cast<std::uint16_t>(&worker - bound.plan().workers.data());
  made.step_index = static_cast<std::uint16_t>(&ready - worker.steps.data());
  for (std::size_t operand = 0; operand < step.sources.size() + step.targets.size(); ++operand) {
    const Cells& cells = operand_of(step, operand);
    const Extent extent = bound.extent_of(ready, operand, 0, 0);
    if (cells.count != 1) return std::nullopt;
    made.bytes = extent.bytes;
    (operand < step.sources.size() ? made.source : made.target) = {cells.buffer, extent.offset};
  }
  if (sends(step.kind) && made.bytes > worker.send->chunk_limit()) return std::nullopt;
  if (receives(step.kind) && made.bytes > worker.recv->chunk_limit()) return std::nullopt;
  return made;
}

}  // namespace

std::vector<StraightStep> make_straight_line(const BoundPlan& bound) {
  const Plan& plan = bound.plan();
  if (bound.tiles() > 1 || plan.one_sided) return {};
  std::vector<int> done(plan.workers.size(), 0);  // steps of each worker that stand in the line
  const auto is_ready = [&](const PlanStep& ready) {
    return std::all_of(ready.step.after.begin(), ready.step.after.end(), [&](const Dependency& needed) {
      return done[static_cast<std::size_t>(needed.worker)] > needed.step;
    });
  };
  std::vector<StraightStep> line;
  for (const auto wanted :
       {+[](StepKind kind) { return !receives(kind); }, +[](StepKind kind) { return receives(kind); },
        +[](StepKind kind) { return !receives(kind) && kind != StepKind::send; }}) {
    for (std::size_t index = 0; index < plan.workers.size(); ++index) {
      const PlanWorker& worker = plan.workers[index];
      for (auto& at = done[index]; at < static_cast<int>(worker.steps.size()); ++at) {
        const PlanStep& ready = worker.steps[static_cast<std::size_t>(at)];
        if (!wanted(ready.step.kind) || !is_ready(ready)) break;
        const std::optional<StraightStep> step = straighten(bound, worker, ready);
        if (!step) return {};
        line.push_back(*step);
      }
    }
  }
  std::size_t steps = 0;
  for (const PlanWorker& worker : plan.workers) steps += worker.steps.size();
  if (line.size() < steps) line.clear();
  return line;
}

}  // namespace tutti
