#include "engine/step_runner.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/clock.hpp"

namespace tutti {
namespace {

/// Pulled operands are worked on in pieces that stay in the cache between the pull and the arithmetic.
constexpr std::size_t kPullBytes = 128 << 10;
constexpr std::size_t kStagedPiece = 16 << 10;

/// Returns whether a chunk's tile travels at all: what has no bytes travels once, to keep the order it stands for.
bool travels(std::size_t bytes, std::size_t tile) { return bytes > 0 || tile == 0; }

/// Returns the operand that says what a receiving step receives: where it is stored, else what it is reduced with.
std::size_t landing_of(const Step& step) { return step.targets.empty() ? 0 : step.sources.size(); }

std::size_t slice_of(std::size_t bytes, std::size_t offset, std::size_t limit) {
  return std::min(bytes - offset, limit);
}

}  // namespace

void WorkerState::reset(std::size_t steps) {
  tile = 0;
  step = 0;
  begun = false;
  temporary_mark = 0;
  sent_mark.assign(steps, 0);
}

void StepRunner::bind(const Call& call, int ranks, OneSidedPeers* peers) {
  peers_ = peers;
  stage_ = peers != nullptr ? &peers->stage() : nullptr;
  combiner_.bind(call, ranks);
}

StepRunner::Span StepRunner::span_of(const PlanStep& ready, std::size_t operand, int chunk, std::size_t tile) const {
  const Extent extent = bound_->extent_of(ready, operand, chunk, tile);
  const Cells& cells = operand_of(ready.step, operand);
  if (cells.buffer == Buffer::scratch && bound_->staged()) {
    std::byte* const stage = cells.rank == kSelf ? stage_->own() : stage_->of(cells.rank);
    return {stage + extent.offset, 0, extent.bytes, cells.rank};
  }
  if (cells.rank == kSelf) return {base_of(cells.buffer) + extent.offset, 0, extent.bytes, kSelf};
  const OneSidedPeers::Place& place = buffers_.place_of(cells.rank, cells.buffer);
  return {place.mapped != nullptr ? place.mapped + extent.offset : nullptr, place.address + extent.offset, extent.bytes,
          cells.rank};
}

void StepRunner::begin_step(const PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
  state.in = {};
  state.out = {};
  const Step& step = ready.step;
  if (!receives(step.kind)) return;
  const bool lands = !reduces(step.kind);
  const Cells& cells = operand_of(step, landing_of(step));
  const std::size_t limit = worker.recv->chunk_limit();
  for (int chunk = 0; chunk < cells.count; ++chunk) {
    const Span target = span_of(ready, landing_of(step), chunk, state.tile);
    if (!travels(target.bytes, state.tile)) continue;
    std::size_t offset = 0;
    do {
      const std::size_t bytes = slice_of(target.bytes, offset, limit);
      worker.recv->expect(lands ? target.data + offset : nullptr, bytes, run_.tag());
      offset += bytes;
    } while (offset < target.bytes);
  }
}

bool StepRunner::run_step(const PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
  if (!ready.pushes) return take_step(worker, state, ready);
  if (!peers_->begin_push()) return false;
  const bool done = take_step(worker, state, ready);
  peers_->end_push();
  return done;
}

bool StepRunner::take_step(const PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
  const Step& step = ready.step;
  switch (step.kind) {
    case StepKind::nop:
      return true;
    case StepKind::send:
      return run_send(worker, state, ready);
    case StepKind::recv:
    case StepKind::recv_reduce:
    case StepKind::recv_copy_send:
    case StepKind::recv_reduce_send:
    case StepKind::recv_reduce_copy_send:
      return run_receive(worker, state, ready);
    case StepKind::copy:
      return run_copy(state.tile, ready);
    case StepKind::reduce:
      return run_reduce(state.tile, ready);
    case StepKind::signal:
      peers_->signal(step.peer, worker.channel);
      return true;
    case StepKind::wait:
      return peers_->take_signal(step.peer, worker.channel);
  }
  return true;
}

/// Offers a slice to the worker's link. Once a rank of the host has given up, what was read from it may be anything,
/// and must not reach ranks of other hosts as if it were good.
inline bool StepRunner::offer(const PlanWorker& worker, const PlanStep& ready, const std::byte* data,
                              std::size_t bytes) {
  if (peers_ != nullptr && peers_->stopped()) return false;
  SendLink& link = *worker.send;
  const bool taken = ready.copies ? link.send_copy(data, bytes, run_.tag()) : link.send(data, bytes, run_.tag());
  if (taken)
    run_.note_move();
  else if (link.error() != nullptr)
    run_.fail_about(worker.send_rank, *link.error());
  return taken;
}

/// Returns the next chunk of the worker's link, to be released; none if it is not here, or was not expected.
inline std::optional<Arrival> StepRunner::receive(const PlanWorker& worker) {
  std::optional<Arrival> arrival = worker.recv->poll();
  if (!arrival || arrival->data == nullptr) {
    check_refused(worker, arrival);
    arrival.reset();
    return arrival;
  }
  run_.note_move();
  return arrival;
}

/// Fails the operation if the link failed, or brought a chunk that was not expected.
void StepRunner::check_refused(const PlanWorker& worker, const std::optional<Arrival>& arrival) {
  if (arrival)
    fail_on_wrong_chunk(worker, *arrival);
  else if (worker.recv->error() != nullptr)
    run_.fail_about(worker.recv_rank, *worker.recv->error());
}

bool StepRunner::run_send(const PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
  const Cells& cells = ready.step.sources[0];
  const std::size_t limit = worker.send->chunk_limit();
  for (; state.out.chunk < cells.count; ++state.out.chunk, state.out.offset = 0) {
    const Span source = span_of(ready, 0, state.out.chunk, state.tile);
    if (!travels(source.bytes, state.tile)) continue;
    do {
      const std::size_t bytes = slice_of(source.bytes, state.out.offset, limit);
      if (!offer(worker, ready, source.data + state.out.offset, bytes)) return false;
      state.out.offset += bytes;
    } while (state.out.offset < source.bytes);
  }
  return true;
}

/// Puts what has come, or its reduction with `local`, into `target`.
inline void StepRunner::store(const Step& step, const Arrival& arrival, const std::byte* local, std::byte* target) {
  if (arrival.bytes == 0) return;
  if (!reduces(step.kind)) {
    if (arrival.data != target) combiner_.copy(target, arrival.data, arrival.bytes);
    return;
  }
  const void* const sources[2] = {step.local_first ? local : arrival.data, step.local_first ? arrival.data : local};
  void* const targets[1] = {target};
  combiner_.combine(targets, 1, sources, 2, arrival.bytes, step.completes);
}

bool StepRunner::run_receive(const PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
  const Step& step = ready.step;
  const bool forwards = sends(step.kind);
  const int chunks = operand_of(step, landing_of(step)).count;
  while (state.in.chunk < chunks) {
    const std::size_t bytes = bound_->extent_of(ready, landing_of(step), state.in.chunk, state.tile).bytes;
    if (!travels(bytes, state.tile)) {
      ++state.in.chunk;
      continue;
    }
    if (forwards && !forward(worker, state, ready) && !run_.is_running()) return false;
    const std::optional<Arrival> arrival = receive(worker);
    if (!arrival) return false;
    const std::byte* const local =
        reduces(step.kind) ? span_of(ready, 0, state.in.chunk, state.tile).data + state.in.offset : nullptr;
    store(step, *arrival, local, result_of(state, ready, state.in.chunk) + state.in.offset);
    state.in.offset += arrival->bytes;
    worker.recv->release();
    if (state.in.offset >= bytes) {
      ++state.in.chunk;
      state.in.offset = 0;
    }
  }
  return !forwards || forward(worker, state, ready);
}

/// Returns where a receiving step puts its result: in its target, or if it has none, in the worker's temporary.
std::byte* StepRunner::result_of(WorkerState& state, const PlanStep& ready, int chunk) {
  const Step& step = ready.step;
  if (!step.targets.empty()) return span_of(ready, landing_of(step), chunk, state.tile).data;
  const std::size_t stride = bound_->tile();
  const std::size_t wanted = stride * static_cast<std::size_t>(step.sources[0].count);
  if (state.temporary.size() < wanted) state.temporary.resize(wanted);
  return state.temporary.data() + stride * static_cast<std::size_t>(chunk);
}

/// Sends on what the step has received so far. Returns whether all of it is sent.
bool StepRunner::forward(const PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
  const Step& step = ready.step;
  const int chunks = operand_of(step, landing_of(step)).count;
  const std::size_t limit = worker.send->chunk_limit();
  for (; state.out.chunk < chunks; ++state.out.chunk, state.out.offset = 0) {
    const std::size_t whole = bound_->extent_of(ready, landing_of(step), state.out.chunk, state.tile).bytes;
    if (!travels(whole, state.tile)) continue;
    if (state.out.chunk > state.in.chunk) return false;
    const std::size_t here = state.out.chunk < state.in.chunk ? whole : state.in.offset;
    const std::byte* const data = result_of(state, ready, state.out.chunk);
    do {
      const std::size_t bytes = slice_of(whole, state.out.offset, limit);
      if (state.out.chunk == state.in.chunk && (here == 0 || state.out.offset + bytes > here)) return false;
      if (!offer(worker, ready, data + state.out.offset, bytes)) return false;
      state.out.offset += bytes;
    } while (state.out.offset < whole);
  }
  return true;
}

bool StepRunner::fail_on_wrong_chunk(const PlanWorker& worker, const Arrival& arrival) {
  Error error;
  error.code = ErrorCode::mismatch;
  error.message =
      arrival.tag == run_.tag()
          ? fmt::format("rank {} sent {} bytes where others were expected: its counts differ", worker.recv_rank,
                        arrival.bytes)
          : fmt::format("rank {} is in operation {} with another call", worker.recv_rank, arrival.tag.number);
  return run_.fail_about(worker.recv_rank, std::move(error));
}

bool StepRunner::run_copy(std::size_t tile, const PlanStep& ready) {
  const Step& step = ready.step;
  for (int chunk = 0; chunk < step.sources[0].count; ++chunk) {
    const Span source = span_of(ready, 0, chunk, tile);
    const Span target = span_of(ready, 1, chunk, tile);
    const std::size_t bytes = std::min(source.bytes, target.bytes);
    if (bytes == 0 || (source.data == target.data && source.data != nullptr)) continue;
    if (source.data != nullptr && step.targets[0].buffer == Buffer::scratch && bound_->staged()) {
      stage_->copy(target.data, source.data, bytes);
    } else if (source.data != nullptr) {
      const std::uint64_t start = bound_->staged() ? ticks() : 0;
      combiner_.copy(target.data, source.data, bytes);
      if (bound_->staged() && source.rank != kSelf) stage_->count_read(ticks() - start, bytes);
    } else if (const Status pulled = peers_->pull(source.rank, target.data, source.address, bytes); !pulled) {
      return run_.fail_about(source.rank, pulled.error());
    }
  }
  return true;
}

/// Returns memory that can be loaded from: the span itself, or a bounce buffer filled by pulling.
const void* StepRunner::reachable(const Span& span, std::size_t at, std::size_t bytes, std::size_t bounce) {
  if (span.data != nullptr) return span.data + at;
  std::byte* const target = bounce_.data() + bounce * kPullBytes;
  if (const Status pulled = peers_->pull(span.rank, target, span.address + at, bytes); !pulled)
    run_.fail_about(span.rank, pulled.error());
  return target;
}

bool StepRunner::run_reduce(std::size_t tile, const PlanStep& ready) {
  constexpr std::size_t kFew = 64;
  const std::size_t operands = ready.step.sources.size() + ready.step.targets.size();
  Span few_spans[kFew];
  const void* few_pointers[kFew];
  std::vector<Span> many_spans(operands > kFew ? operands : 0);
  std::vector<const void*> many_pointers(many_spans.size());
  Span* const spans = operands > kFew ? many_spans.data() : few_spans;
  const void** const pointers = operands > kFew ? many_pointers.data() : few_pointers;
  for (int chunk = 0; chunk < ready.step.sources[0].count; ++chunk)
    if (!reduce_chunk(tile, ready, chunk, spans, pointers)) return false;
  return true;
}

/// `spans` and `pointers` have room for all operands of the step.
bool StepRunner::reduce_chunk(std::size_t tile, const PlanStep& ready, int chunk, Span* spans, const void** pointers) {
  const Step& step = ready.step;
  const std::size_t source_count = step.sources.size();
  const std::size_t target_count = step.targets.size();
  std::size_t pulled = 0;
  // A peer's scratch is known only by its largest size; whatever meets it says the true one.
  std::size_t bytes = ~std::size_t{0};
  for (std::size_t operand = 0; operand < source_count + target_count; ++operand) {
    spans[operand] = span_of(ready, operand, chunk, tile);
    bytes = std::min(bytes, spans[operand].bytes);
    pulled += operand < source_count && spans[operand].data == nullptr ? 1 : 0;
  }
  if (bounce_.size() < pulled * kPullBytes) bounce_.resize(pulled * kPullBytes);
  // What others read goes the way that is best for them, after what stays.
  const bool stages =
      bound_->staged() && !combiner_.streams() && target_count == 2 && step.targets[1].buffer == Buffer::scratch;
  const std::size_t piece = pulled > 0 ? kPullBytes : stages ? kStagedPiece : bytes;
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t now = std::min(piece, bytes - at);
    std::size_t bounce = 0;
    for (std::size_t i = 0; i < source_count; ++i)
      pointers[i] = reachable(spans[i], at, now, spans[i].data == nullptr ? bounce++ : 0);
    if (!run_.is_running()) return false;
    for (std::size_t i = 0; i < target_count; ++i) pointers[source_count + i] = spans[source_count + i].data + at;
    const std::uint64_t start = bound_->staged() ? ticks() : 0;
    combiner_.combine(const_cast<void* const*>(pointers + source_count), stages ? 1 : static_cast<int>(target_count),
                      pointers, static_cast<int>(source_count), now, step.completes);
    if (bound_->staged()) stage_->count_read(ticks() - start, now * (source_count - 1));
    if (stages) stage_->copy(spans[source_count + 1].data + at, spans[source_count].data + at, now);
  }
  return true;
}

void StepRunner::begin_straight_line() {
  for (const StraightStep& step : bound_->straight_line())
    if (receives(step.step->step.kind))
      step.worker->recv->expect(reduces(step.step->step.kind) ? nullptr : at(step.target), step.bytes, run_.tag());
}

inline bool StepRunner::run_straight(const StraightStep& step) {
  switch (step.step->step.kind) {
    case StepKind::copy:
      combiner_.copy(at(step.target), at(step.source), step.bytes);
      return true;
    case StepKind::send:
      return offer(*step.worker, *step.step, at(step.source), step.bytes);
    case StepKind::reduce:
      return run_reduce(0, *step.step);
    case StepKind::recv:
    case StepKind::recv_reduce: {
      const std::optional<Arrival> arrival = receive(*step.worker);
      if (!arrival) return false;
      store(step.step->step, *arrival, at(step.source), at(step.target));
      step.worker->recv->release();
      return true;
    }
    default:
      return true;
  }
}

std::size_t StepRunner::run_straight_line(std::size_t at, const std::atomic<bool>* stop) {
  const std::vector<StraightStep>& line = bound_->straight_line();
  for (; at < line.size(); ++at) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) break;
    const StraightStep& step = line[at];
    if (!run_straight(step)) break;
    run_.note_step(step.worker_index, 0, step.step_index, run_.logged_until());
  }
  return at;
}

}  // namespace tutti
