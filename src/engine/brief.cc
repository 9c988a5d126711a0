// The way of small calls: where every step moves one chunk at once and none waits for another, the steps of all
// workers are lined up, receiving ones last, with everything found out ahead that does not change from run to run.
#include <algorithm>

#include "engine/execution.hpp"

namespace tutti {

void Execution::line_up() {
  std::vector<BriefStep>& brief = now_->brief;
  const Plan& plan = *now_->plan;
  if (now_->tiles > 1 || plan.one_sided) return;
  for (const bool receiving : {false, true})
    for (const PlanWorker& worker : plan.workers)
      for (const PlanStep& ready : worker.steps) {
        if (receives(ready.step.kind) != receiving) continue;
        const std::optional<BriefStep> step = shorten(worker, ready);
        if (!step) return brief.clear();
        brief.push_back(*step);
      }
}

std::optional<Execution::BriefStep> Execution::shorten(const PlanWorker& worker, const PlanStep& ready) const {
  const Step& step = ready.step;
  const bool known = step.kind == StepKind::send || step.kind == StepKind::recv || step.kind == StepKind::recv_reduce ||
                     step.kind == StepKind::copy;
  if (!known || ready.conditional) return std::nullopt;
  // Links are the communicator's; the plan only points to them.
  BriefStep brief{const_cast<PlanWorker*>(&worker), &ready};
  for (std::size_t operand = 0; operand < step.sources.size() + step.targets.size(); ++operand) {
    const bool source = operand < step.sources.size();
    const Cells& cells = source ? step.sources[operand] : step.targets[operand - step.sources.size()];
    const Extent extent = extent_of(ready, operand, 0, 0);
    if (cells.count != 1 || cells.buffer == Buffer::scratch) return std::nullopt;
    brief.bytes = extent.bytes;
    (source ? brief.source : brief.target) = {static_cast<int>(cells.buffer), extent.offset};
  }
  if (sends(step.kind) && brief.bytes > worker.send->chunk_limit()) return std::nullopt;
  if (receives(step.kind) && brief.bytes > worker.recv->chunk_limit()) return std::nullopt;
  return brief;
}

bool Execution::run_brief() {
  bool moved = false;
  for (; brief_at_ < now_->brief.size(); ++brief_at_, moved = true) {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) return moved;
    const BriefStep& step = now_->brief[brief_at_];
    const std::byte* const source = base_[step.source.buffer] + step.source.offset;
    std::byte* const target = base_[step.target.buffer] + step.target.offset;
    if (step.ready->step.kind == StepKind::copy) {
      copy(target, source, step.bytes, stream_);
    } else if (step.ready->step.kind == StepKind::send) {
      if (!offer(*step.worker, *step.ready, source, step.bytes)) return moved;
    } else if (!take_brief(step, source, target)) {
      return moved;
    }
  }
  return moved;
}

bool Execution::take_brief(const BriefStep& step, const std::byte* local, std::byte* target) {
  RecvLink& link = *step.worker->recv;
  const bool reduces_here = step.ready->step.kind == StepKind::recv_reduce;
  if (!brief_announced_) {
    link.expect(reduces_here ? nullptr : target, step.bytes, tag_);
    brief_announced_ = true;
  }
  const std::optional<Arrival> arrival = link.poll();
  if (!arrival) {
    if (link.error() != nullptr) fail_about(step.worker->recv_rank, *link.error());
    return false;
  }
  if (arrival->data == nullptr) return wrong_chunk(*step.worker, *arrival);
  store(step.ready->step, *arrival, local, target);
  link.release();
  brief_announced_ = false;
  return true;
}

}  // namespace tutti
