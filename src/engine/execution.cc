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

/// How many blocks a collective's input (or output) buffer holds, by which Extents count chunks.
int blocks_of(const Shape& shape, Buffer buffer) {
  switch (shape.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return buffer == Buffer::output ? shape.ranks : 1;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return buffer == Buffer::input ? shape.ranks : 1;
    case Collective::all_to_all:
      return shape.ranks;
    default:
      return 1;
  }
}

/// Where the targets of a host's ranks together take more than this, they leave the caches anyway, so stores go past
/// them.
constexpr std::size_t kStreamBytes = 32 << 20;

/// The checker proves programs for links that take two chunks before the receiver takes one. So much must fit in a
/// link, whatever carries it. Ranks need not agree on the number of tiles: a transfer has as many on both its ends.
std::size_t two_sided_tile(int ranks) { return static_cast<std::size_t>(slots_for(ranks)) * kSlotBytes / 2; }

}  // namespace

Status Execution::start(const Way& way, const Way& when_mapped, const Call& call, OperationTag tag, Host* host,
                        const std::atomic<bool>* stop) {
  tag_ = tag;
  host_ = host;
  stop_ = stop;
  type_ = call.type;
  reduction_ = call.reduction;
  const bool reduces_here = reduces(way.plan->shape.collective) && call.reduction.op != Operator::user;
  kernel_ = reduces_here ? find_kernel(call.type, call.reduction.op) : nullptr;
  base_[0] = static_cast<std::byte*>(const_cast<void*>(call.send));
  base_[1] = static_cast<std::byte*>(call.recv);
  const std::size_t bytes = bytes_of(call, way.plan->shape.ranks);
  stream_ = bytes >= kStreamBytes / static_cast<std::size_t>(way.plan->shape.ranks);
  Status bound = bind(way, call, bound_[0]);
  bound_[1].plan = nullptr;
  if (bound && when_mapped.plan != nullptr) bound = bind(when_mapped, call, bound_[1]);
  if (!bound) {
    now_ = &bound_[0];
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
  now_ = &bound_[0];
  tag_ = tag;
  state_ = State::running;
  heard_ = false;
  idle_polls_ = 0;
  prepare();
  deciding_ = false;
  if (now_->staged) host_->begin_turn();
  has_entry_ = now_->plan->one_sided || bound_[1].plan != nullptr;
  if (has_entry_) enter();
}

void Execution::prepare() {
  brief_at_ = 0;
  brief_announced_ = false;
  if (traced_ != nullptr) traced_until_ = ticks();
  if (!now_->brief.empty()) return;
  if (now_->tiles == 1 && now_->extents_of_chunks.empty()) {
    keep_extents();
    line_up();
  }
  finished_ = 0;
  workers_.resize(now_->plan->workers.size());
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    WorkerState& state = workers_[index];
    state.tile = 0;
    state.step = 0;
    state.begun = false;
    const std::size_t steps = now_->plan->workers[index].steps.size();
    state.temporary_mark = 0;
    if (state.sent_mark.size() != steps) state.sent_mark.resize(steps);
    std::fill(state.sent_mark.begin(), state.sent_mark.end(), 0);
  }
}

Status Execution::bind(const Way& way, const Call& call, Binding& binding) {
  const Plan& plan = *way.plan;
  binding.plan = &plan;
  const std::span<const std::size_t> counts[2] = {call.send_counts, call.recv_counts};
  const std::span<const std::size_t> offsets[2] = {call.send_offsets, call.recv_offsets};
  binding.largest_chunk = 0;
  for (int side = 0; side < 2; ++side) {
    Extents& extents = binding.extents[side];
    extents.element = size_of(call.type);
    extents.chunks = plan.shape.chunks;
    extents.count = call.count;
    extents.counts = counts[side];
    extents.offsets = offsets[side];
    extents.only_block = holds_all_blocks(plan.shape.collective, static_cast<Buffer>(side)) ? -1 : plan.rank;
    binding.largest_chunk = std::max(binding.largest_chunk, extents.largest(plan.shape.ranks));
    binding.buffer_bytes[side] = extents.whole(blocks_of(plan.shape, static_cast<Buffer>(side)));
  }
  if ((call.uneven || !binding.extents[1].alike()) && !plan.fits_uneven())
    return fail(
        ErrorCode::unsupported,
        fmt::format("program {} holds chunks of unknown size in scratch and cannot run uneven ones", plan.name));

  binding.staged = plan.stage_chunks > 0;
  std::size_t limit = binding.largest_chunk;
  if (binding.staged) limit = kStageBytes / static_cast<std::size_t>(plan.stage_chunks) / 64 * 64;
  if (!plan.one_sided) limit = two_sided_tile(host_ != nullptr ? host_->size() : plan.shape.ranks);
  binding.tile = (way.tile == 0 ? limit : std::min(way.tile, limit)) / 64 * 64;
  if (binding.tile == 0 || binding.tile > binding.largest_chunk)
    binding.tile = std::max<std::size_t>(binding.largest_chunk, 64);
  binding.tiles = std::max<std::size_t>(1, (binding.largest_chunk + binding.tile - 1) / binding.tile);
  binding.scratch_stride = ((binding.staged ? binding.tile : binding.largest_chunk) + 63) / 64 * 64;
  binding.extents_of_chunks.clear();
  binding.brief.clear();
  const std::size_t wanted = binding.scratch_stride * static_cast<std::size_t>(plan.scratch_chunks);
  if (!binding.staged && scratch_.size() < wanted) scratch_.resize(wanted);
  return {};
}

/// Tells peers of this rank's buffers. Where another plan would run if all of them could be mapped, a rank whose own
/// cannot need not hear of the others'.
void Execution::enter() {
  remotes_.resize(static_cast<std::size_t>(now_->plan->shape.ranks));
  Entry& entry = host_->entry();
  const auto describe = [&](int buffer, Entry::Side& side) {
    std::byte* const memory = base_[buffer];
    side.address = reinterpret_cast<std::uint64_t>(memory);
    const auto region = memory != nullptr ? find_region(memory, now_->buffer_bytes[buffer]) : std::nullopt;
    side.region = region ? region->name : RegionName{};
    side.offset = region ? region->offset : 0;
    return region.has_value();
  };
  const bool input = describe(0, entry.input);
  const bool output = describe(1, entry.output);
  entry.generation = region_generation();
  const bool mapped = (input && output) || host_->is_one_process();
  entry.mapped = mapped ? 1 : 0;
  entry.signature = tag_.signature;
  entry.number.store(tag_.number + 1, std::memory_order_release);
  deciding_ = mapped && bound_[1].plan != nullptr;
  met_ = 0;
  for (const int peer : (deciding_ ? bound_[1] : *now_).plan->neighbours) host_->ring(peer);
}

/// Every rank sees the same entries, so every rank makes the same choice.
bool Execution::decide() {
  const std::vector<int>& peers = bound_[1].plan->touched;
  for (; met_ < peers.size(); ++met_) {
    const Entry& entry = host_->entry_of(peers[met_]);
    if (!has_entered(peers[met_], entry)) return false;
    if (entry.mapped == 0) break;
  }
  deciding_ = false;
  if (met_ < peers.size()) return true;
  now_ = &bound_[1];
  if (active_ != nullptr)
    monitor::OperationLog::change_program(*active_, plan().recorded_as,
                                          static_cast<std::uint32_t>(plan().workers.size()));
  prepare();
  return true;
}

/// Whether the peer has entered this very operation; fails where it has entered it with another call.
bool Execution::has_entered(int peer, const Entry& entry) {
  if (entry.number.load(std::memory_order_acquire) != tag_.number + 1) return false;
  if (entry.signature == tag_.signature) return hear(), true;
  Error error;
  error.code = ErrorCode::mismatch;
  error.peer = peer;
  error.message = fmt::format("rank {} entered operation {} with another call", peer, tag_.number);
  return fail_with(std::move(error));
}

/// Whether the peers named in the cells have entered, and where their memory is.
bool Execution::know(const std::vector<Cells>& cells) {
  for (const Cells& cell : cells)
    if (cell.rank != kSelf && remotes_[static_cast<std::size_t>(cell.rank)].number != tag_.number + 1 &&
        !learn(cell.rank))
      return false;
  return true;
}

bool Execution::learn(int peer) {
  const Entry& entry = host_->entry_of(peer);
  if (!has_entered(peer, entry)) return false;
  Remote& remote = remotes_[static_cast<std::size_t>(peer)];
  PeerMemory& memory = host_->memory_of(peer);
  const Entry::Side* const sides[2] = {&entry.input, &entry.output};
  if (now_->plan->reaches) {
    memory.begin_use();
    used_.push_back(peer);
  }
  for (int side = 0; side < 2 && now_->plan->reaches; ++side) {
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
  remote.number = tag_.number + 1;
  return true;
}

/// Not called if the operation fails: the communicator is broken then, and its mappings stay until it is destroyed.
void Execution::end_use() {
  for (const int peer : used_) host_->memory_of(peer).end_use();
  used_.clear();
}

bool Execution::advance() {
  if (state_ != State::running) return false;
  if (!heard_) ++idle_polls_;
  bool moved = false;
  if (deciding_) {
    moved = decide();
    if (deciding_ || state_ != State::running) return state_ != State::running;
  }
  const bool brief = !now_->brief.empty();
  if (brief) {
    moved |= run_brief();
    if (state_ != State::running) return true;
    if (brief_at_ < now_->brief.size()) return moved;
  } else if (finished_ < workers_.size()) {
    for (std::size_t index = 0; index < workers_.size(); ++index) {
      if (workers_[index].tile == now_->tiles) continue;
      if (run_worker(index)) moved = true;
      if (state_ != State::running) return true;
    }
  }
  if ((brief || finished_ == workers_.size()) && sends_released()) {
    // What was read of a rank that has given up may be anything. The news of what happened is on its way.
    if (host_ != nullptr && host_->stopped()) return moved;
    state_ = State::done;
    if (!used_.empty()) end_use();
    if (has_entry_ && ends_after_all_began()) host_->change_entries();
    return true;
  }
  return moved;
}

bool Execution::run_worker(std::size_t index) {
  WorkerState& state = workers_[index];
  // Links are the communicator's; the plan only points to them.
  auto& worker = const_cast<PlanWorker&>(now_->plan->workers[index]);
  const int steps = static_cast<int>(worker.steps.size());
  bool moved = false;
  while (state.tile < now_->tiles) {
    // What is staged of a tile makes room for the next one's.
    if (now_->staged && !all_reached(state.tile)) return moved;
    while (state.step < steps) {
      const PlanStep& ready = worker.steps[static_cast<std::size_t>(state.step)];
      if (!state.begun) {
        if (ready.conditional && !may_begin(worker, state, ready)) return moved || state_ != State::running;
        state.begun = true;
        if (traced_ != nullptr) state.begun_at = ticks();
        state.in = {};
        state.out = {};
        if (receives(ready.step.kind)) announce(worker, state, ready);
      }
      if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) return moved;
      if (!run_step(worker, state, ready)) return moved || state_ != State::running;
      if (worker.send != nullptr && sends(ready.step.kind)) {
        state.sent_mark[static_cast<std::size_t>(state.step)] = worker.send->sent();
        if (ready.forwards_unstored) state.temporary_mark = worker.send->sent();
      }
      if (traced_ != nullptr) trace(index, state.step, state.tile, state.begun_at);
      state.begun = false;
      ++state.step;
      tell_step(index, state.tile, state.step);
      moved = true;
    }
    ++state.tile;
    state.step = 0;
    if (now_->staged && all_reached(state.tile)) {
      host_->end_turn(now_->plan->all_hear);
      if (state.tile < now_->tiles) host_->begin_turn();
    }
  }
  ++finished_;
  return true;
}

void Execution::trace(std::size_t worker, int step, std::size_t tile, std::uint64_t begun) {
  traced_until_ = ticks();
  traced_->step(tag_.number, worker, static_cast<std::size_t>(step), tile, begun, traced_until_);
}

bool Execution::may_begin(const PlanWorker& worker, const WorkerState& state, const PlanStep& ready) {
  if (now_->plan->one_sided && (!know(ready.step.sources) || !know(ready.step.targets))) return false;
  if (ready.forwards_unstored && worker.send->released() < state.temporary_mark) return false;
  for (const Dependency& needed : ready.step.after) {
    const WorkerState& other = workers_[static_cast<std::size_t>(needed.worker)];
    if (other.tile < state.tile || (other.tile == state.tile && other.step <= needed.step)) return false;
  }
  for (const Dependency& sent : ready.guards) {
    const std::uint64_t mark =
        workers_[static_cast<std::size_t>(sent.worker)].sent_mark[static_cast<std::size_t>(sent.step)];
    SendLink* const link = now_->plan->workers[static_cast<std::size_t>(sent.worker)].send;
    if (link->released() < mark) return false;
  }
  return true;
}

/// Whether this rank, being done, knows that all others have begun: their data is in its result, or they told it.
bool Execution::ends_after_all_began() const {
  switch (now_->plan->shape.collective) {
    case Collective::all_reduce:
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return true;
    default:
      return now_->plan->one_sided && now_->plan->all_hear;
  }
}

bool Execution::all_reached(std::size_t tile) const {
  return std::all_of(workers_.begin(), workers_.end(), [&](const WorkerState& each) { return each.tile >= tile; });
}

bool Execution::sends_released() {
  for (const PlanWorker& worker : now_->plan->workers) {
    // A peer that has all it needs may be gone.
    if (worker.send == nullptr || worker.send->released() == worker.send->sent()) continue;
    if (worker.send->error() != nullptr) fail_about(worker.send_rank, *worker.send->error());
    return false;
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
  const Extents& mine = now_->extents[static_cast<int>(buffer)];
  if (rank == kSelf || mine.only_block < 0) return mine.of(chunk);
  Extents theirs = mine;
  theirs.only_block = rank;
  return theirs.of(chunk);
}

/// Scratch chunks are as large as the cell they were found to be like, else (all chunks are alike then) the largest.
Extent Execution::scratch_extent(int rank, int chunk) const {
  const std::size_t offset = static_cast<std::size_t>(chunk) * now_->scratch_stride;
  if (rank != kSelf) return {offset, now_->largest_chunk};
  const Cells& like = now_->plan->scratch_like[static_cast<std::size_t>(chunk)];
  if (like.count == 0) return {offset, now_->largest_chunk};
  return {offset, extent_on(like.rank, like.buffer, like.first).bytes};
}

Extent Execution::tile_extent(const Cells& cells, int chunk, std::size_t tile) const {
  const int index = cells.first + chunk;
  const bool scratch = cells.buffer == Buffer::scratch;
  const Extent whole = scratch ? scratch_extent(cells.rank, index) : extent_on(cells.rank, cells.buffer, index);
  const std::size_t begin = std::min(tile * now_->tile, whole.bytes);
  const std::size_t offset = scratch && now_->staged ? whole.offset : whole.offset + begin;
  return {offset, std::min(now_->tile, whole.bytes - begin)};
}

/// Where there is one tile only, extents are the same in every run.
void Execution::keep_extents() {
  std::vector<Extent>& kept = now_->extents_of_chunks;
  kept.reserve(static_cast<std::size_t>(now_->plan->chunks));
  for (const PlanWorker& worker : now_->plan->workers)
    for (const PlanStep& ready : worker.steps)
      for (const auto* side : {&ready.step.sources, &ready.step.targets})
        for (const Cells& cells : *side)
          for (int chunk = 0; chunk < cells.count; ++chunk) kept.push_back(tile_extent(cells, chunk, 0));
}

Extent Execution::extent_of(const PlanStep& ready, std::size_t operand, int chunk, std::size_t tile) const {
  const std::size_t sources = ready.step.sources.size();
  const Cells& cells = operand < sources ? ready.step.sources[operand] : ready.step.targets[operand - sources];
  if (now_->tiles > 1) return tile_extent(cells, chunk, tile);
  const std::size_t before = operand * static_cast<std::size_t>(cells.count) + static_cast<std::size_t>(chunk);
  return now_->extents_of_chunks[static_cast<std::size_t>(ready.first_chunk) + before];
}

Execution::Span Execution::span_of(const PlanStep& ready, std::size_t operand, int chunk, std::size_t tile) const {
  const Extent extent = extent_of(ready, operand, chunk, tile);
  const std::size_t sources = ready.step.sources.size();
  const Cells& cells = operand < sources ? ready.step.sources[operand] : ready.step.targets[operand - sources];
  const int buffer = static_cast<int>(cells.buffer);
  if (cells.buffer == Buffer::scratch) {
    std::byte* const scratch = !now_->staged         ? const_cast<std::byte*>(scratch_.data())
                               : cells.rank == kSelf ? host_->stage()
                                                     : host_->stage_of(cells.rank);
    return {scratch + extent.offset, 0, extent.bytes, cells.rank};
  }
  if (cells.rank == kSelf) return {base_[buffer] + extent.offset, 0, extent.bytes, kSelf};
  const Remote& remote = remotes_[static_cast<std::size_t>(cells.rank)];
  std::byte* const mapped = remote.mapped[buffer];
  return {mapped != nullptr ? mapped + extent.offset : nullptr, remote.address[buffer] + extent.offset, extent.bytes,
          cells.rank};
}

std::array<Execution::Exposed, 2> Execution::exposed() const {
  if (state_ == State::done || !has_entry_) return {};
  std::array<Exposed, 2> both{{{base_[0], now_->buffer_bytes[0]}, {base_[1], now_->buffer_bytes[1]}}};
  // A call in place has one buffer within the other.
  const auto within = [](const Exposed& inner, const Exposed& outer) {
    const auto at = reinterpret_cast<std::uintptr_t>(inner.memory);
    const auto begin = reinterpret_cast<std::uintptr_t>(outer.memory);
    return at >= begin && at + inner.bytes <= begin + outer.bytes;
  };
  if (within(both[0], both[1]))
    both[0] = {};
  else if (within(both[1], both[0]))
    both[1] = {};
  return both;
}

Execution::Waiting Execution::waiting_for() const {
  if (deciding_) return {bound_[1].plan->touched[met_], -1, -1};
  if (!now_->brief.empty() && brief_at_ < now_->brief.size()) {
    const BriefStep& step = now_->brief[brief_at_];
    const int rank = receives(step.ready->step.kind) ? step.worker->recv_rank : step.worker->send_rank;
    return {rank, static_cast<int>(step.worker - now_->plan->workers.data()),
            static_cast<int>(step.ready - step.worker->steps.data())};
  }
  for (std::size_t index = 0; now_->brief.empty() && index < workers_.size(); ++index) {
    const WorkerState& state = workers_[index];
    if (state.tile == now_->tiles) continue;
    const PlanWorker& worker = now_->plan->workers[index];
    const Step& step = worker.steps[static_cast<std::size_t>(state.step)].step;
    if (!state.begun && now_->plan->one_sided)
      for (const auto* cells : {&step.sources, &step.targets})
        for (const Cells& cell : *cells)
          if (cell.rank != kSelf && remotes_[static_cast<std::size_t>(cell.rank)].number != tag_.number + 1)
            return {cell.rank, static_cast<int>(index), state.step};
    const int rank = step.kind == StepKind::wait ? step.peer
                     : receives(step.kind)       ? worker.recv_rank
                     : sends(step.kind)          ? worker.send_rank
                                                 : -1;
    if (rank >= 0 && state.begun) return {rank, static_cast<int>(index), state.step};
  }
  for (const PlanWorker& worker : now_->plan->workers)
    if (worker.send != nullptr && worker.send->released() < worker.send->sent()) return {worker.send_rank, -1, -1};
  return {};
}

}  // namespace tutti
