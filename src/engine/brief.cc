// The way of small calls: where every step moves one chunk at once and no send waits for anything received, the steps
// of all workers are lined up (sends and copies, receives, reductions of what has come), with everything found out
// ahead that does not change from run to run. Ranks that all send first cannot wait for each other in a circle.
#include <algorithm>

#include "engine/execution.hpp"

namespace tutti {

void Execution::line_up() {
  const Plan& plan = *now_->plan;
  if (now_->tiles > 1 || plan.one_sided) return;
  std::vector<int> done(plan.workers.size(), 0);  // steps of each worker that stand in the line
  const auto is_ready = [&](const PlanStep& ready) {
    return std::all_of(ready.step.after.begin(), ready.step.after.end(), [&](const Dependency& needed) {
      return done[static_cast<std::size_t>(needed.worker)] > needed.step;
    });
  };
  std::vector<BriefStep>& brief = now_->brief;
  std::size_t steps = 0;
  for (const auto wanted :
       {+[](StepKind kind) { return !receives(kind); }, +[](StepKind kind) { return receives(kind); },
        +[](StepKind kind) { return !receives(kind) && kind != StepKind::send; }}) {
    for (std::size_t index = 0; index < plan.workers.size(); ++index) {
      const PlanWorker& worker = plan.workers[index];
      for (auto& at = done[index]; at < static_cast<int>(worker.steps.size()); ++at) {
        const PlanStep& ready = worker.steps[static_cast<std::size_t>(at)];
        if (!wanted(ready.step.kind) || !is_ready(ready)) break;
        const std::optional<BriefStep> step = shorten(worker, ready);
        if (!step) return brief.clear();
        brief.push_back(*step);
      }
    }
  }
  for (const PlanWorker& worker : plan.workers) steps += worker.steps.size();
  if (brief.size() < steps) brief.clear();
}

std::optional<Execution::BriefStep> Execution::shorten(const PlanWorker& worker, const PlanStep& ready) const {
  const Step& step = ready.step;
  if ((sends(step.kind) && receives(step.kind)) || !ready.guards.empty()) return std::nullopt;
  // Links are the communicator's; the plan only points to them.
  BriefStep brief{const_cast<PlanWorker*>(&worker), &ready};
  brief.worker_index = static_cast<std::uint16_t>(&worker - now_->plan->workers.data());
  brief.step_index = static_cast<std::uint16_t>(&ready - worker.steps.data());
  for (std::size_t operand = 0; operand < step.sources.size() + step.targets.size(); ++operand) {
    const bool source = operand < step.sources.size();
    const Cells& cells = source ? step.sources[operand] : step.targets[operand - step.sources.size()];
    const Extent extent = extent_of(ready, operand, 0, 0);
    if (cells.count != 1) return std::nullopt;
    brief.bytes = extent.bytes;
    (source ? brief.source : brief.target) = {static_cast<int>(cells.buffer), extent.offset};
  }
  if (sends(step.kind) && brief.bytes > worker.send->chunk_limit()) return std::nullopt;
  if (receives(step.kind) && brief.bytes > worker.recv->chunk_limit()) return std::nullopt;
  return brief;
}

bool Execution::run_brief() {
  if (!brief_announced_) {
    brief_announced_ = true;
    for (const BriefStep& step : now_->brief)
      if (receives(step.ready->step.kind))
        step.worker->recv->expect(reduces(step.ready->step.kind) ? nullptr : at(step.target), step.bytes, tag_);
  }
  bool moved = false;
  for (; brief_at_ < now_->brief.size(); ++brief_at_, moved = true) {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) return moved;
    const BriefStep& step = now_->brief[brief_at_];
    switch (step.ready->step.kind) {
      case StepKind::copy:
        copy(at(step.target), at(step.source), step.bytes, stream_);
        break;
      case StepKind::send:
        if (!offer(*step.worker, *step.ready, at(step.source), step.bytes)) return moved;
        break;
      case StepKind::reduce:
        run_reduce(WorkerState{}, *step.ready);
        break;
      case StepKind::recv:
      case StepKind::recv_reduce:
        if (!take_brief(step)) return moved;
        break;
      default:
        break;
    }
    if (traced_ != nullptr) trace(step.worker_index, step.step_index, 0, traced_until_);
    tell_step(step.worker_index, 0, step.step_index + 1);
  }
  return moved;
}

bool Execution::take_brief(const BriefStep& step) {
  RecvLink& link = *step.worker->recv;
  const std::optional<Arrival> arrival = link.poll();
  if (!arrival) {
    if (link.error() != nullptr) fail_about(step.worker->recv_rank, *link.error());
    return false;
  }
  if (arrival->data == nullptr) return wrong_chunk(*step.worker, *arrival);
  hear();
  store(step.ready->step, *arrival, at(step.source), at(step.target));
  link.release();
  return true;
}

std::byte* Execution::at(const BriefStep::Place& place) {
  return (place.buffer == static_cast<int>(Buffer::scratch) ? scratch_.data() : base_[place.buffer]) + place.offset;
}

}  // namespace tutti
