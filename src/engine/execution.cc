#include "engine/execution.hpp"

#include <algorithm>

namespace tutti {

Status Execution::start(const TiledPlan& tiled, const TiledPlan& when_mapped, const Call& call, OperationTag tag,
                        OneSidedPeers* peers, const std::atomic<bool>* stop) {
  peers_ = peers;
  stop_ = stop;
  now_ = &bound_[0];
  has_entered_ = false;
  choosing_ = false;
  stage_ = peers != nullptr ? &peers->stage() : nullptr;
  const std::size_t stage_bytes = stage_ != nullptr ? stage_->bytes() : 0;
  Status bound = bound_[0].bind(tiled, call, stage_bytes);
  bound_[1].unbind();
  if (bound && when_mapped.plan != nullptr) bound = bound_[1].bind(when_mapped, call, stage_bytes);
  if (!bound) {
    run_.begin(tag);
    run_.fail(bound.error());
    return bound;
  }
  runner_.bind(call, tiled.plan->shape.ranks, peers);
  begin(tag, call.send, call.recv);
  return {};
}

void Execution::restart(OperationTag tag, const void* send, void* recv) { begin(tag, send, recv); }

void Execution::begin(OperationTag tag, const void* send, void* recv) {
  send_ = send;
  recv_ = recv;
  now_ = &bound_[0];
  run_.begin(tag);
  choosing_ = false;
  has_entered_ = plan().one_sided || bound_[1].is_bound();
  if (has_entered_) enter();
  if (!choosing_) begin_plan();
}

void Execution::begin_plan() {
  now_->prepare();
  if (now_->staged()) stage_->begin_turn();
  runner_.begin(*now_, send_, recv_);
  if (!now_->straight_line().empty()) {
    straight_at_ = 0;
    announced_ = false;
  } else {
    begin_workers();
  }
}

void Execution::begin_workers() {
  finished_ = 0;
  workers_.resize(plan().workers.size());
  for (std::size_t index = 0; index < workers_.size(); ++index)
    workers_[index].reset(plan().workers[index].steps.size());
}

/// Announces this rank's buffers. If another plan would run if all of them could be mapped, a rank whose own cannot be
/// need not hear of the others'.
void Execution::enter() {
  buffers_.begin(*peers_, plan().shape.ranks);
  const bool can_be_mapped = peers_->enter(tag(), buffer(Buffer::input), buffer(Buffer::output));
  choosing_ = can_be_mapped && bound_[1].is_bound();
  met_ = 0;
  for (const int peer : (choosing_ ? bound_[1] : *now_).plan().neighbours) peers_->ring(peer);
}

/// Chooses between the two plans once enough peers have entered; returns whether it did. Every rank sees the same
/// entries, so every rank makes the same choice.
bool Execution::choose_plan() {
  const std::vector<int>& peers = bound_[1].plan().touched;
  for (; met_ < peers.size(); ++met_) {
    if (!buffers_.has_entered(peers[met_])) return false;
    if (!peers_->can_map(peers[met_])) break;
  }
  choosing_ = false;
  if (met_ == peers.size()) {
    now_ = &bound_[1];
    run_.note_program(plan().recorded_as, plan().workers.size());
  }
  begin_plan();
  return true;
}

/// Ends the operation well. What was read of a rank that has given up may be anything, so it goes on then: the news of
/// what happened is on its way.
inline bool Execution::end() {
  if (peers_ != nullptr && peers_->stopped()) return false;
  run_.end();
  if (has_entered_) buffers_.end();
  if (has_entered_ && ends_after_all_entered()) peers_->leave_operation();
  return true;
}

bool Execution::advance() {
  if (!run_.is_running()) return false;
  if (run_.count_poll()) [[unlikely]]
    note_wait(ticks());
  bool moved = false;
  if (choosing_) [[unlikely]] {
    moved = choose_plan();
    if (!run_.is_running()) return true;
    if (choosing_) return false;
  }
  const bool straight = !now_->straight_line().empty();
  if (straight ? run_straight_line() : run_workers()) moved = true;
  if (!run_.is_running()) return true;
  const bool ran = straight ? straight_at_ == now_->straight_line().size() : finished_ == workers_.size();
  return (ran && all_released() && end()) || moved || !run_.is_running();
}

bool Execution::run_straight_line() {
  if (!announced_) {
    announced_ = true;
    runner_.begin_straight_line();
  }
  const std::size_t before = straight_at_;
  straight_at_ = runner_.run_straight_line(before, stop_);
  return straight_at_ != before;
}

bool Execution::run_workers() {
  bool moved = false;
  for (std::size_t index = 0; index < workers_.size() && run_.is_running(); ++index)
    if (workers_[index].tile < now_->tiles() && run_worker(index)) moved = true;
  return moved;
}

bool Execution::run_worker(std::size_t index) {
  WorkerState& state = workers_[index];
  const std::size_t tile_before = state.tile;
  const int step_before = state.step;
  while (state.tile < now_->tiles()) {
    // What is staged of a tile makes room for the next one's.
    if (now_->staged() && !all_reached(state.tile)) break;
    if (!run_tile(index)) break;
    ++state.tile;
    state.step = 0;
    if (state.tile == now_->tiles()) ++finished_;
    if (now_->staged() && all_reached(state.tile)) {
      stage_->end_turn(plan().all_hear);
      if (state.tile < now_->tiles()) stage_->begin_turn();
    }
  }
  return state.tile != tile_before || state.step != step_before;
}

/// Runs what is left of a worker's tile; returns whether it is done.
bool Execution::run_tile(std::size_t index) {
  WorkerState& state = workers_[index];
  const PlanWorker& worker = plan().workers[index];
  for (const auto steps = static_cast<int>(worker.steps.size()); state.step < steps; ++state.step) {
    const PlanStep& ready = worker.steps[static_cast<std::size_t>(state.step)];
    if (!state.begun) {
      if (ready.conditional && !may_begin(worker, state, ready)) return false;
      state.begun = true;
      if (run_.logs_steps()) state.begun_at = ticks();
      runner_.begin_step(worker, state, ready);
    }
    if (is_stopped() || !runner_.run_step(worker, state, ready)) return false;
    if (worker.send != nullptr && sends(ready.step.kind)) {
      state.sent_mark[static_cast<std::size_t>(state.step)] = worker.send->sent();
      if (ready.forwards_unstored) state.temporary_mark = worker.send->sent();
    }
    run_.note_step(index, state.tile, state.step, state.begun_at);
    state.begun = false;
  }
  return true;
}

bool Execution::may_begin(const PlanWorker& worker, const WorkerState& state, const PlanStep& ready) {
  const Step& step = ready.step;
  if (plan().one_sided &&
      (!buffers_.find_all(step.sources, plan().reaches) || !buffers_.find_all(step.targets, plan().reaches)))
    return false;
  if (ready.forwards_unstored && worker.send->released() < state.temporary_mark) return false;
  for (const Dependency& needed : step.after) {
    const WorkerState& other = workers_[static_cast<std::size_t>(needed.worker)];
    if (other.tile < state.tile || (other.tile == state.tile && other.step <= needed.step)) return false;
  }
  for (const Dependency& sent : ready.guards) {
    const auto sender = static_cast<std::size_t>(sent.worker);
    const std::uint64_t mark = workers_[sender].sent_mark[static_cast<std::size_t>(sent.step)];
    if (plan().workers[sender].send->released() < mark) return false;
  }
  return true;
}

/// Returns whether this rank, being done, knows that all others have entered: their data is in its result, or they
/// signalled.
bool Execution::ends_after_all_entered() const {
  switch (plan().shape.collective) {
    case Collective::all_reduce:
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return true;
    default:
      return plan().one_sided && plan().all_hear;
  }
}

bool Execution::all_reached(std::size_t tile) const {
  return std::all_of(workers_.begin(), workers_.end(), [&](const WorkerState& each) { return each.tile >= tile; });
}

/// Returns whether all memory that was sent is released. A peer that has all it needs may be gone.
bool Execution::all_released() {
  for (const PlanWorker& worker : plan().workers) {
    if (worker.send == nullptr || worker.send->released() == worker.send->sent()) continue;
    if (worker.send->error() != nullptr) run_.fail_about(worker.send_rank, *worker.send->error());
    return false;
  }
  return true;
}

std::span<std::byte> Execution::buffer(Buffer side) const {
  void* const memory = side == Buffer::input ? const_cast<void*>(send_) : recv_;
  return {static_cast<std::byte*>(memory), now_->buffer_bytes(side)};
}

std::array<std::span<std::byte>, 2> Execution::exposed() const {
  if (state() == State::done || !has_entered_) return {};
  std::array<std::span<std::byte>, 2> both{buffer(Buffer::input), buffer(Buffer::output)};
  // A call in place has one buffer within the other.
  const auto within = [](std::span<std::byte> inner, std::span<std::byte> outer) {
    const auto at = reinterpret_cast<std::uintptr_t>(inner.data());
    const auto begin = reinterpret_cast<std::uintptr_t>(outer.data());
    return at >= begin && at + inner.size() <= begin + outer.size();
  };
  if (within(both[0], both[1]))
    both[0] = {};
  else if (within(both[1], both[0]))
    both[1] = {};
  return both;
}

Execution::Waiting Execution::waiting_for() const {
  if (choosing_) return {bound_[1].plan().touched[met_], -1, -1};
  const std::vector<StraightStep>& line = now_->straight_line();
  if (straight_at_ < line.size()) {
    const StraightStep& step = line[straight_at_];
    const int rank = receives(step.step->step.kind) ? step.worker->recv_rank : step.worker->send_rank;
    return {rank, step.worker_index, step.step_index};
  }
  for (std::size_t index = 0; line.empty() && index < workers_.size(); ++index)
    if (const Waiting found = waiting_in(index); found.rank >= 0) return found;
  for (const PlanWorker& worker : plan().workers)
    if (worker.send != nullptr && worker.send->released() < worker.send->sent()) return {worker.send_rank, -1, -1};
  return {};
}

void Execution::note_wait(std::uint64_t now) {
  if (!run_.is_running() || !run_.measures_waits()) return;
  const int rank = waiting_for().rank;
  run_.note_wait(rank, longest_transit(rank), now);
}

/// Returns for how many ticks chunks that are under way from or to this rank may take; 0: none are.
std::uint64_t Execution::longest_transit(int rank) const {
  constexpr double kCopies = 1e3, kChunks = 100e3;  // microseconds
  Transit found = Transit::none;
  for (const PlanWorker& worker : plan().workers) {
    if (worker.recv != nullptr && worker.recv_rank == rank) found = std::max(found, worker.recv->transit());
    if (worker.send != nullptr && worker.send_rank == rank) found = std::max(found, worker.send->transit());
  }
  return found == Transit::none ? 0 : ticks_of_microseconds(found == Transit::copies ? kCopies : kChunks);
}

Execution::Waiting Execution::waiting_in(std::size_t worker) const {
  const WorkerState& state = workers_[worker];
  if (state.tile == now_->tiles()) return {};
  const PlanWorker& ready = plan().workers[worker];
  const Step& step = ready.steps[static_cast<std::size_t>(state.step)].step;
  if (!state.begun && plan().one_sided)
    for (const auto* cells : {&step.sources, &step.targets})
      for (const Cells& cell : *cells)
        if (!buffers_.is_known(cell.rank)) return {cell.rank, static_cast<int>(worker), state.step};
  if (!state.begun) return {};
  const int rank = step.kind == StepKind::wait ? step.peer
                   : receives(step.kind)       ? ready.recv_rank
                   : sends(step.kind)          ? ready.send_rank
                                               : -1;
  return rank < 0 ? Waiting{} : Waiting{rank, static_cast<int>(worker), state.step};
}

}  // namespace tutti
