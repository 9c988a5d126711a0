#include "engine/bound_plan.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace tutti {
namespace {

/// Returns whether a collective's input (or output) holds one block per rank, and not this rank's alone.
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

/// Returns how many blocks a collective's input (or output) holds, by which Extents count chunks.
int blocks_of(const Shape& shape, Buffer buffer) {
  switch (shape.collective) {
    case Collective::all_gather:
    case Collective::gather:
    case Collective::reduce_scatter:
    case Collective::scatter:
      return holds_all_blocks(shape.collective, buffer) ? shape.ranks : 1;
    case Collective::all_to_all:
      return shape.ranks;
    default:
      return 1;
  }
}

std::size_t whole_lines(std::size_t bytes) { return bytes / 64 * 64; }

}  // namespace

Status BoundPlan::bind(const TiledPlan& tiled, const Call& call, std::size_t stage_bytes) {
  const Plan& plan = *tiled.plan;
  plan_ = &plan;
  prepared_ = false;
  kept_.clear();
  straight_line_.clear();
  const std::span<const std::size_t> counts[2] = {call.send_counts, call.recv_counts};
  const std::span<const std::size_t> offsets[2] = {call.send_offsets, call.recv_offsets};
  largest_chunk_ = 0;
  for (const Buffer buffer : {Buffer::input, Buffer::output}) {
    const auto side = static_cast<std::size_t>(buffer);
    Extents& extents = extents_[side];
    extents.element = size_of(call.type);
    extents.chunks = plan.shape.chunks;
    extents.count = call.count;
    extents.counts = counts[side];
    extents.offsets = offsets[side];
    extents.only_block = holds_all_blocks(plan.shape.collective, buffer) ? -1 : plan.rank;
    largest_chunk_ = std::max(largest_chunk_, extents.largest(plan.shape.ranks));
    buffer_bytes_[side] = extents.whole(blocks_of(plan.shape, buffer));
  }
  if ((call.uneven || !extents_[1].alike()) && !plan.fits_uneven())
    return fail(
        ErrorCode::unsupported,
        fmt::format("program {} holds chunks of unknown size in scratch and cannot run uneven ones", plan.name));
  choose_tile(tiled, stage_bytes);
  return {};
}

/// The checker proves programs for links that take two chunks before the receiver takes one, so two tiles must fit into
/// every link. Ranks need not agree on the number of tiles: a transfer has as many on both its ends.
void BoundPlan::choose_tile(const TiledPlan& tiled, std::size_t stage_bytes) {
  staged_ = plan_->stage_chunks > 0;
  std::size_t limit = largest_chunk_;
  if (staged_) limit = whole_lines(stage_bytes / static_cast<std::size_t>(plan_->stage_chunks));
  if (!plan_->one_sided) limit = plan_->link_window / 2;
  tile_ = whole_lines(tiled.tile == 0 ? limit : std::min(tiled.tile, limit));
  if (tile_ == 0 || tile_ > largest_chunk_) tile_ = std::max<std::size_t>(largest_chunk_, 64);
  tiles_ = std::max<std::size_t>(1, (largest_chunk_ + tile_ - 1) / tile_);
  scratch_stride_ = whole_lines((staged_ ? tile_ : largest_chunk_) + 63);
  scratch_bytes_ = staged_ ? 0 : scratch_stride_ * static_cast<std::size_t>(plan_->scratch_chunks);
}

void BoundPlan::work_out() {
  prepared_ = true;
  if (tiles_ > 1) return;
  kept_.reserve(static_cast<std::size_t>(plan_->chunks));
  for (const PlanWorker& worker : plan_->workers)
    for (const PlanStep& ready : worker.steps)
      for (const auto* side : {&ready.step.sources, &ready.step.targets})
        for (const Cells& cells : *side)
          for (int chunk = 0; chunk < cells.count; ++chunk) kept_.push_back(tile_extent(cells, chunk, 0));
  straight_line_ = make_straight_line(*this);
}

Extent BoundPlan::extent_on(int rank, Buffer buffer, int chunk) const {
  const Extents& mine = extents_[static_cast<int>(buffer)];
  if (rank == kSelf || mine.only_block < 0) return mine.of(chunk);
  Extents theirs = mine;
  theirs.only_block = rank;
  return theirs.of(chunk);
}

/// Scratch chunks are as large as the cell they were found to be like, else (all chunks are alike then) the largest.
Extent BoundPlan::scratch_extent(int rank, int chunk) const {
  const std::size_t offset = static_cast<std::size_t>(chunk) * scratch_stride_;
  if (rank != kSelf) return {offset, largest_chunk_};
  const Cells& like = plan_->scratch_like[static_cast<std::size_t>(chunk)];
  if (like.count == 0) return {offset, largest_chunk_};
  return {offset, extent_on(like.rank, like.buffer, like.first).bytes};
}

Extent BoundPlan::tile_extent(const Cells& cells, int chunk, std::size_t tile) const {
  const int index = cells.first + chunk;
  const bool scratch = cells.buffer == Buffer::scratch;
  const Extent whole = scratch ? scratch_extent(cells.rank, index) : extent_on(cells.rank, cells.buffer, index);
  const std::size_t begin = std::min(tile * tile_, whole.bytes);
  const std::size_t offset = scratch && staged_ ? whole.offset : whole.offset + begin;
  return {offset, std::min(tile_, whole.bytes - begin)};
}

}  // namespace tutti
