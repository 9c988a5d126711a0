// What each kind of step does, resumable where it may have to wait.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "engine/execution.hpp"

namespace tutti {
namespace {

/// Pulled operands are worked on in pieces that stay in the cache between the pull and the arithmetic.
constexpr std::size_t kPullBytes = 128 << 10;
constexpr std::size_t kStagedPiece = 16 << 10;

/// Whether a chunk's tile travels at all: what has no bytes travels once, to keep the order it stands for.
bool travels(std::size_t bytes, std::size_t tile) { return bytes > 0 || tile == 0; }

/// The operand that says what a receiving step receives: where it is stored, else what it is reduced with.
std::size_t landing_of(const Step& step) { return step.targets.empty() ? 0 : step.sources.size(); }

std::size_t slice_of(std::size_t bytes, std::size_t offset, std::size_t limit) {
  return std::min(bytes - offset, limit);
}

}  // namespace

bool Execution::run_step(PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
  // Ranks of one process fence everything they do, not only these.
  if (!ready.pushes || host_->shares_process()) return take_step(worker, state, ready);
  if (!host_->begin_touching()) return false;
  const bool done = take_step(worker, state, ready);
  host_->end_touching();
  return done;
}

bool Execution::take_step(PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
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
      return run_copy(state, ready);
    case StepKind::reduce:
      return run_reduce(state, ready);
    case StepKind::signal:
      host_->signal(step.peer, worker.channel);
      return true;
    case StepKind::wait:
      if (!host_->take_signal(step.peer, worker.channel)) return false;
      hear();
      return true;
  }
  return true;
}

/// Offers a slice to the worker's link. Once a rank of the host has given up, what was read from it may be anything,
/// and must not reach ranks of other hosts as if it were good.
bool Execution::offer(PlanWorker& worker, const PlanStep& ready, const std::byte* data, std::size_t bytes) {
  if (host_ != nullptr && host_->stopped()) return false;
  const bool taken = ready.copies ? worker.send->send_copy(data, bytes, tag_) : worker.send->send(data, bytes, tag_);
  if (!taken && worker.send->error() != nullptr) fail_about(worker.send_rank, *worker.send->error());
  return taken;
}

bool Execution::run_send(PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
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

void Execution::announce(PlanWorker& worker, const WorkerState& state, const PlanStep& ready) {
  const Step& step = ready.step;
  const bool lands = step.kind == StepKind::recv || step.kind == StepKind::recv_copy_send;
  const Cells& cells = step.targets.empty() ? step.sources[0] : step.targets[0];
  const std::size_t limit = worker.recv->chunk_limit();
  for (int chunk = 0; chunk < cells.count; ++chunk) {
    const Span target = span_of(ready, landing_of(step), chunk, state.tile);
    if (!travels(target.bytes, state.tile)) continue;
    std::size_t offset = 0;
    do {
      const std::size_t bytes = slice_of(target.bytes, offset, limit);
      worker.recv->expect(lands ? target.data + offset : nullptr, bytes, tag_);
      offset += bytes;
    } while (offset < target.bytes);
  }
}

bool Execution::run_receive(PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
  const Step& step = ready.step;
  const bool forwards = sends(step.kind);
  const Cells& cells = step.targets.empty() ? step.sources[0] : step.targets[0];
  while (state.in.chunk < cells.count) {
    const std::size_t bytes = extent_of(ready, landing_of(step), state.in.chunk, state.tile).bytes;
    if (!travels(bytes, state.tile)) {
      ++state.in.chunk;
      continue;
    }
    if (forwards && !forward(worker, state, ready) && state_ != State::running) return false;
    const std::optional<Arrival> arrival = worker.recv->poll();
    if (!arrival) {
      if (worker.recv->error() != nullptr) fail_about(worker.recv_rank, *worker.recv->error());
      return false;
    }
    if (arrival->data == nullptr) return wrong_chunk(worker, *arrival);
    hear();
    std::byte* const target = result_of(state, ready, state.in.chunk);
    apply(ready, *arrival, state, target + state.in.offset);
    state.in.offset += arrival->bytes;
    worker.recv->release();
    if (state.in.offset >= bytes) {
      ++state.in.chunk;
      state.in.offset = 0;
    }
  }
  return !forwards || forward(worker, state, ready);
}

std::byte* Execution::result_of(WorkerState& state, const PlanStep& ready, int chunk) {
  const Step& step = ready.step;
  if (!step.targets.empty()) return span_of(ready, landing_of(step), chunk, state.tile).data;
  const std::size_t stride = now_->tile;
  const std::size_t wanted = stride * static_cast<std::size_t>(step.sources[0].count);
  if (state.temporary.size() < wanted) state.temporary.resize(wanted);
  return state.temporary.data() + stride * static_cast<std::size_t>(chunk);
}

void Execution::apply(const PlanStep& ready, const Arrival& arrival, WorkerState& state, std::byte* target) {
  const bool reduces_here = reduces(ready.step.kind);
  const std::byte* const local =
      reduces_here ? span_of(ready, 0, state.in.chunk, state.tile).data + state.in.offset : nullptr;
  store(ready.step, arrival, local, target);
}

/// What has come, or its reduction with `local`, into `target`.
void Execution::store(const Step& step, const Arrival& arrival, const std::byte* local, std::byte* target) {
  if (arrival.bytes == 0) return;
  if (!reduces(step.kind)) {
    if (arrival.data != target) copy(target, arrival.data, arrival.bytes, stream_);
    return;
  }
  const void* const sources[2] = {step.local_first ? local : arrival.data, step.local_first ? arrival.data : local};
  void* const targets[1] = {target};
  combine(targets, 1, sources, 2, arrival.bytes, step.completes);
}

bool Execution::forward(PlanWorker& worker, WorkerState& state, const PlanStep& ready) {
  const Step& step = ready.step;
  const Cells& cells = step.targets.empty() ? step.sources[0] : step.targets[0];
  const std::size_t limit = worker.send->chunk_limit();
  for (; state.out.chunk < cells.count; ++state.out.chunk, state.out.offset = 0) {
    const std::size_t whole = extent_of(ready, landing_of(step), state.out.chunk, state.tile).bytes;
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

bool Execution::wrong_chunk(const PlanWorker& worker, const Arrival& arrival) {
  Error error;
  error.code = ErrorCode::mismatch;
  error.peer = worker.recv_rank;
  error.message =
      arrival.tag == tag_
          ? fmt::format("rank {} sent {} bytes where others were expected: its counts differ", worker.recv_rank,
                        arrival.bytes)
          : fmt::format("rank {} is in operation {} with another call", worker.recv_rank, arrival.tag.number);
  return fail_with(std::move(error));
}

/// Memory that can be loaded from: the span itself, or a bounce buffer filled by pulling.
const void* Execution::reachable(const Span& span, std::size_t at, std::size_t bytes, std::size_t bounce) {
  if (span.data != nullptr) return span.data + at;
  std::byte* const target = bounce_.data() + bounce * kPullBytes;
  if (const Status pulled = host_->memory_of(span.rank).pull(target, span.address + at, bytes); !pulled) {
    fail_about(span.rank, pulled.error());
  }
  return target;
}

bool Execution::run_copy(const WorkerState& state, const PlanStep& ready) {
  const Step& step = ready.step;
  for (int chunk = 0; chunk < step.sources[0].count; ++chunk) {
    const Span source = span_of(ready, 0, chunk, state.tile);
    const Span target = span_of(ready, 1, chunk, state.tile);
    const std::size_t bytes = std::min(source.bytes, target.bytes);
    if (bytes == 0 || (source.data == target.data && source.data != nullptr)) continue;
    if (source.data != nullptr && step.targets[0].buffer == Buffer::scratch && now_->staged) {
      host_->copy_to_stage(target.data, source.data, bytes);
    } else if (source.data != nullptr) {
      const std::uint64_t start = now_->staged ? ticks() : 0;
      copy(target.data, source.data, bytes, stream_);
      if (now_->staged && source.rank != kSelf) host_->count_stage_read(ticks() - start, bytes);
    } else if (const Status pulled = host_->memory_of(source.rank).pull(target.data, source.address, bytes); !pulled) {
      return fail_about(source.rank, pulled.error());
    }
  }
  return true;
}

bool Execution::run_reduce(const WorkerState& state, const PlanStep& ready) {
  const Step& step = ready.step;
  constexpr std::size_t kMost = 64;
  const std::size_t source_count = step.sources.size();
  const std::size_t target_count = step.targets.size();
  Span few_spans[kMost];
  std::vector<Span> many_spans;
  Span* spans = few_spans;
  const void* few_pointers[kMost];
  std::vector<const void*> many_pointers;
  const void** pointers = few_pointers;
  if (source_count + target_count > kMost) {
    many_spans.resize(source_count + target_count);
    many_pointers.resize(source_count + target_count);
    spans = many_spans.data();
    pointers = many_pointers.data();
  }
  for (int chunk = 0; chunk < step.sources[0].count; ++chunk) {
    std::size_t pulled = 0;
    for (std::size_t i = 0; i < source_count; ++i) {
      spans[i] = span_of(ready, i, chunk, state.tile);
      pulled += spans[i].data == nullptr ? 1 : 0;
    }
    for (std::size_t i = 0; i < target_count; ++i)
      spans[source_count + i] = span_of(ready, source_count + i, chunk, state.tile);
    // A peer's scratch is known only by its largest size; whatever meets it says the true one.
    std::size_t bytes = spans[0].bytes;
    for (std::size_t i = 1; i < source_count + target_count; ++i) bytes = std::min(bytes, spans[i].bytes);
    if (bounce_.size() < pulled * kPullBytes) bounce_.resize(pulled * kPullBytes);
    // What others read goes the way that is best for them, after what stays.
    const bool stages = now_->staged && !stream_ && target_count == 2 && step.targets[1].buffer == Buffer::scratch;
    const std::size_t piece = pulled > 0 ? kPullBytes : stages ? kStagedPiece : bytes;
    for (std::size_t at = 0; at < bytes; at += piece) {
      const std::size_t now = std::min(piece, bytes - at);
      std::size_t bounce = 0;
      for (std::size_t i = 0; i < source_count; ++i)
        pointers[i] = reachable(spans[i], at, now, spans[i].data == nullptr ? bounce++ : 0);
      if (state_ != State::running) return false;
      for (std::size_t i = 0; i < target_count; ++i) pointers[source_count + i] = spans[source_count + i].data + at;
      const std::uint64_t start = now_->staged ? ticks() : 0;
      combine(const_cast<void* const*>(pointers + source_count), stages ? 1 : static_cast<int>(target_count), pointers,
              static_cast<int>(source_count), now, step.completes);
      if (now_->staged) host_->count_stage_read(ticks() - start, now * (source_count - 1));
      if (stages) host_->copy_to_stage(spans[source_count + 1].data + at, spans[source_count].data + at, now);
    }
  }
  return true;
}

void Execution::combine(void* const* targets, int target_count, const void* const* sources, int source_count,
                        std::size_t bytes, bool completes) {
  const std::size_t elements = bytes / size_of(type_);
  if (elements == 0) return;
  if (reduction_.op == Operator::user) {
    // Through a temporary: a target may be one of the later sources.
    std::vector<std::byte> result(bytes);
    std::memcpy(result.data(), sources[0], bytes);
    for (int i = 1; i < source_count; ++i)
      reduction_.function(result.data(), sources[i], result.data(), elements, type_, reduction_.context);
    for (int i = 0; i < target_count; ++i) std::memcpy(targets[i], result.data(), bytes);
    return;
  }
  ReduceCall call;
  call.targets = targets;
  call.target_count = target_count;
  call.sources = sources;
  call.source_count = source_count;
  call.elements = elements;
  if (completes && reduction_.op == Operator::average) {
    call.scale = 1.0 / now_->plan->shape.ranks;
    call.divisor = now_->plan->shape.ranks;
  }
  call.stream = stream_;
  kernel_(call);
}

}  // namespace tutti
