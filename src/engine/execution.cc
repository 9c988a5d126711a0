#include "engine/execution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

/// Whether a collective's input (or output) buffer holds one block per rank, or this rank's alone.
bool holds_all_blocks(Collective collective, Buffer buffer) {
  switch (collective) {
    case Collective::all_gather:
    case Collective::gather:
      return buffer == Buffer::output;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return buffer == Buffer::input;
    default:
      return true;
  }
}

/// Whether the step's result is forwarded and not stored.
bool uses_temporary(const Step& step) { return receives(step.kind) && sends(step.kind) && step.targets.empty(); }

/// Targets beyond this leave the caches anyway, so stores go past them.
constexpr std::size_t kStreamBytes = 16 << 20;

/// The checker proves programs for links that take two chunks before the receiver takes one. So much must fit in a
/// link, whatever carries it. Ranks need not agree on the number of tiles: a transfer has as many on both its ends.
constexpr std::size_t kTwoSidedTile = kPipeSlots * kSlotBytes / 2;

}  // namespace

Status Execution::start(const Plan& plan, const Call& call, OperationTag tag, std::size_t tile, Host* host,
                        const std::atomic<bool>* stop) {
  bound_plan_ = plan_ = &plan;
  tag_ = tag;
  tile_ = tile;
  host_ = host;
  stop_ = stop;
  if (Status bound = bind(call); !bound) {
    state_ = State::failed;
    error_ = bound.error();
    return bound;
  }
  begin(tag);
  return {};
}

void Execution::restart(OperationTag tag, const void* send, void* recv) {
  base_[0] = static_cast<std::byte*>(const_cast<void*>(send));
  base_[1] = static_cast<std::byte*>(recv);
  begin(tag);
}

void Execution::begin(OperationTag tag) {
  plan_ = bound_plan_;
  tag_ = tag;
  state_ = State::running;
  finished_ = 0;
  prepare_workers();
  entering_ = plan_->one_sided;
  met_ = 0;
  if (entering_) enter();
}

void Execution::prepare_workers() {
  workers_.resize(plan_->workers.size());
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    WorkerState& state = workers_[index];
    state.tile = 0;
    state.step = 0;
    state.begun = false;
    const std::size_t steps = plan_->workers[index].steps.size();
    state.temporary_mark = 0;
    if (state.sent_mark.size() != steps) state.sent_mark.resize(steps);
    std::fill(state.sent_mark.begin(), state.sent_mark.end(), 0);
  }
}

Status Execution::bind(const Call& call) {
  const Shape& shape = plan_->shape;
  type_ = call.type;
  reduction_ = call.reduction;
  kernel_ = reduces(shape.collective) && call.reduction.op != Operator::user ? find_kernel(call.type, call.reduction.op)
                                                                             : nullptr;
  base_[0] = static_cast<std::byte*>(const_cast<void*>(call.send));
  base_[1] = static_cast<std::byte*>(call.recv);
  const std::span<const std::size_t> counts[2] = {call.send_counts, call.recv_counts};
  const std::span<const std::size_t> offsets[2] = {call.send_offsets, call.recv_offsets};
  largest_chunk_ = 0;
  for (int side = 0; side < 2; ++side) {
    Extents& extents = extents_[side];
    extents.element = size_of(call.type);
    extents.chunks = shape.chunks;
    extents.count = call.count;
    extents.counts = counts[side];
    extents.offsets = offsets[side];
    extents.only_block = holds_all_blocks(shape.collective, static_cast<Buffer>(side)) ? -1 : plan_->rank;
    largest_chunk_ = std::max(largest_chunk_, extents.largest(shape.ranks));
  }
  if (!plan_->one_sided) tile_ = tile_ == 0 ? kTwoSidedTile : std::min(tile_, kTwoSidedTile);
  if (tile_ == 0 || tile_ > largest_chunk_) tile_ = std::max<std::size_t>(largest_chunk_, 64);
  tiles_ = std::max<std::size_t>(1, (largest_chunk_ + tile_ - 1) / tile_);
  stream_ = bytes_of(call, shape.ranks) >= kStreamBytes;

  scratch_stride_ = (largest_chunk_ + 63) / 64 * 64;
  if (call.uneven || !extents_[1].alike())
    for (const Cells& like : plan_->scratch_like)
      if (like.count == 0)
        return fail(
            ErrorCode::unsupported,
            fmt::format("program {} holds chunks of unknown size in scratch and cannot run uneven ones", plan_->name));
  const std::size_t wanted = scratch_stride_ * static_cast<std::size_t>(plan_->scratch_chunks);
  if (scratch_.size() < wanted) scratch_.resize(wanted);
  base_[2] = scratch_.data();
  return {};
}

void Execution::enter() {
  remotes_.assign(static_cast<std::size_t>(plan_->shape.ranks), Remote{});
  Entry& entry = host_->head().entry;
  const auto describe = [&](std::byte* memory, std::size_t bytes, Entry::Side& side) {
    side.address = reinterpret_cast<std::uint64_t>(memory);
    const auto region = memory != nullptr ? find_region(memory, bytes) : std::nullopt;
    side.region = region ? region->name : RegionName{};
    side.offset = region ? region->offset : 0;
    return region.has_value();
  };
  const bool input = describe(base_[0], 1, entry.input);
  const bool output = describe(base_[1], 1, entry.output);
  describe(base_[2], 1, entry.scratch);
  entry.generation = region_generation();
  entry.mapped = input && output ? 1 : 0;
  entry.signature = tag_.signature;
  all_mapped_ = entry.mapped != 0;
  entry.number.store(tag_.number + 1, std::memory_order_release);
  for (const int peer : plan_->neighbours) host_->ring(peer);
}

bool Execution::meet_peers() {
  bool moved = false;
  for (; met_ < plan_->touched.size(); ++met_) {
    if (!learn(plan_->touched[met_])) return moved;
    moved = true;
  }
  entering_ = false;
  // Every rank sees the same entries, so every rank makes the same choice.
  if (all_mapped_ && plan_->when_mapped != nullptr) {
    plan_ = plan_->when_mapped;
    prepare_workers();
  }
  return true;
}

bool Execution::learn(int peer) {
  const Entry& entry = host_->head_of(peer).entry;
  if (entry.number.load(std::memory_order_acquire) != tag_.number + 1) return false;
  if (entry.signature != tag_.signature) {
    Error error;
    error.code = ErrorCode::mismatch;
    error.peer = peer;
    error.message = fmt::format("rank {} entered operation {} with another call", peer, tag_.number);
    return fail_with(std::move(error));
  }
  all_mapped_ = all_mapped_ && entry.mapped != 0;
  Remote& remote = remotes_[static_cast<std::size_t>(peer)];
  PeerMemory& memory = host_->memory_of(peer);
  const Entry::Side* const sides[3] = {&entry.input, &entry.output, &entry.scratch};
  for (int side = 0; side < 3; ++side) {
    remote.address[side] = sides[side]->address;
    remote.mapped[side] = nullptr;
    if (memory.same_process()) {
      remote.mapped[side] = reinterpret_cast<std::byte*>(sides[side]->address);
    } else if (sides[side]->region.descriptor >= 0) {
      const Result<std::byte*> mapped = memory.map(sides[side]->region, entry.generation);
      if (!mapped) return fail_about(peer, mapped.error());
      remote.mapped[side] = *mapped + sides[side]->offset;
    }
  }
  remote.known = true;
  return true;
}

bool Execution::advance() {
  if (state_ != State::running) return false;
  bool moved = false;
  if (entering_) {
    moved = meet_peers();
    if (entering_ || state_ != State::running) return moved;
  }
  if (finished_ < workers_.size()) {
    for (std::size_t index = 0; index < workers_.size(); ++index) {
      if (workers_[index].tile == tiles_) continue;
      if (run_worker(index)) moved = true;
      if (state_ != State::running) return true;
    }
  }
  if (finished_ == workers_.size() && sends_released()) {
    state_ = State::done;
    return true;
  }
  return moved;
}

bool Execution::run_worker(std::size_t index) {
  WorkerState& state = workers_[index];
  // Links are the communicator's; the plan only points to them.
  auto& worker = const_cast<PlanWorker&>(plan_->workers[index]);
  const int steps = static_cast<int>(worker.steps.size());
  bool moved = false;
  while (state.tile < tiles_) {
    while (state.step < steps) {
      const PlanStep& ready = worker.steps[static_cast<std::size_t>(state.step)];
      if (!state.begun) {
        if (!may_begin(worker, state, ready)) return moved;
        state.begun = true;
        state.in = {};
        state.out = {};
        if (receives(ready.step.kind)) announce(worker, state, ready.step);
      }
      if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) return moved;
      if (!run_step(worker, state, ready)) return moved || state_ != State::running;
      if (worker.send != nullptr && sends(ready.step.kind)) {
        state.sent_mark[static_cast<std::size_t>(state.step)] = worker.send->sent();
        if (uses_temporary(ready.step)) state.temporary_mark = worker.send->sent();
      }
      state.begun = false;
      ++state.step;
      moved = true;
    }
    ++state.tile;
    state.step = 0;
  }
  ++finished_;
  return true;
}

bool Execution::may_begin(const PlanWorker& worker, const WorkerState& state, const PlanStep& ready) const {
  if (uses_temporary(ready.step) && worker.send->released() < state.temporary_mark) return false;
  for (const Dependency& needed : ready.step.after) {
    const WorkerState& other = workers_[static_cast<std::size_t>(needed.worker)];
    if (other.tile < state.tile || (other.tile == state.tile && other.step <= needed.step)) return false;
  }
  for (const Dependency& sent : ready.guards) {
    const std::uint64_t mark =
        workers_[static_cast<std::size_t>(sent.worker)].sent_mark[static_cast<std::size_t>(sent.step)];
    SendLink* const link = plan_->workers[static_cast<std::size_t>(sent.worker)].send;
    if (link->released() < mark) return false;
  }
  return true;
}

bool Execution::sends_released() {
  for (const PlanWorker& worker : plan_->workers) {
    if (worker.send == nullptr) continue;
    if (worker.send->error() != nullptr) return fail_about(worker.send_rank, *worker.send->error());
    if (worker.send->released() < worker.send->sent()) return false;
  }
  return true;
}

bool Execution::fail_with(Error error) {
  if (state_ != State::failed) error_ = std::move(error);
  state_ = State::failed;
  return false;
}

bool Execution::fail_about(int peer, Error error) {
  error.peer = peer;
  return fail_with(std::move(error));
}

Extent Execution::extent_on(int rank, Buffer buffer, int chunk) const {
  const Extents& mine = extents_[static_cast<int>(buffer)];
  if (rank == kSelf || mine.only_block < 0) return mine.of(chunk);
  Extents theirs = mine;
  theirs.only_block = rank;
  return theirs.of(chunk);
}

/// Scratch chunks are as large as the cell they were found to be like, else (all chunks are alike then) the largest.
Extent Execution::scratch_extent(int rank, int chunk) const {
  const std::size_t offset = static_cast<std::size_t>(chunk) * scratch_stride_;
  if (rank != kSelf) return {offset, largest_chunk_};
  const Cells& like = plan_->scratch_like[static_cast<std::size_t>(chunk)];
  if (like.count == 0) return {offset, largest_chunk_};
  return {offset, extent_on(like.rank, like.buffer, like.first).bytes};
}

Extent Execution::tile_extent(const Cells& cells, int chunk, std::size_t tile) const {
  const int index = cells.first + chunk;
  const Extent whole =
      cells.buffer == Buffer::scratch ? scratch_extent(cells.rank, index) : extent_on(cells.rank, cells.buffer, index);
  const std::size_t begin = std::min(tile * tile_, whole.bytes);
  return {whole.offset + begin, std::min(tile_, whole.bytes - begin)};
}

Execution::Span Execution::span_of(const Cells& cells, int chunk, std::size_t tile) const {
  const Extent extent = tile_extent(cells, chunk, tile);
  const int buffer = static_cast<int>(cells.buffer);
  if (cells.rank == kSelf) return {base_[buffer] + extent.offset, 0, extent.bytes, kSelf};
  const Remote& remote = remotes_[static_cast<std::size_t>(cells.rank)];
  std::byte* const mapped = remote.mapped[buffer];
  return {mapped != nullptr ? mapped + extent.offset : nullptr, remote.address[buffer] + extent.offset, extent.bytes,
          cells.rank};
}

Execution::Waiting Execution::waiting_for() const {
  if (entering_ && met_ < plan_->touched.size()) return {plan_->touched[met_], -1, -1};
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    const WorkerState& state = workers_[index];
    if (state.tile == tiles_) continue;
    const PlanWorker& worker = plan_->workers[index];
    const Step& step = worker.steps[static_cast<std::size_t>(state.step)].step;
    const int rank = step.kind == StepKind::wait ? step.peer
                     : receives(step.kind)       ? worker.recv_rank
                     : sends(step.kind)          ? worker.send_rank
                                                 : -1;
    if (rank >= 0 && state.begun) return {rank, static_cast<int>(index), state.step};
  }
  for (const PlanWorker& worker : plan_->workers)
    if (worker.send != nullptr && worker.send->released() < worker.send->sent()) return {worker.send_rank, -1, -1};
  return {};
}

}  // namespace tutti
