#include "synthesis/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <unordered_set>

namespace tutti {

namespace {

/// Which rank has which chunk.
class Holdings {
 public:
  explicit Holdings(const Shape& shape)
      : ranks_(static_cast<std::size_t>(shape.ranks)), held_(static_cast<std::size_t>(chunks_of(shape)) * ranks_) {
    for (int chunk = 0; chunk < chunks_of(shape); ++chunk) at(chunk, home_of(shape, chunk)) = true;
  }

  std::vector<bool>::reference at(int chunk, int rank) {
    return held_[static_cast<std::size_t>(chunk) * ranks_ + static_cast<std::size_t>(rank)];
  }

 private:
  std::size_t ranks_;
  std::vector<bool> held_;
};

bool is_rank(const Shape& shape, int rank) { return rank >= 0 && rank < shape.ranks; }

}  // namespace

int chunks_of(const Shape& shape) {
  switch (shape.collective) {
    case Collective::broadcast:
      return shape.chunks;
    case Collective::all_to_all:
      return shape.ranks * shape.ranks * shape.chunks;
    default:
      return shape.ranks * shape.chunks;
  }
}

int home_of(const Shape& shape, int chunk) {
  switch (shape.collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return shape.root;
    case Collective::all_to_all:
      return chunk / shape.chunks / shape.ranks;
    default:
      return chunk / shape.chunks;
  }
}

bool wants(const Shape& shape, int chunk, int rank) {
  if (home_of(shape, chunk) == rank) return true;
  switch (shape.collective) {
    case Collective::gather:
      return rank == shape.root;
    case Collective::scatter:
      return rank == chunk / shape.chunks;
    case Collective::all_to_all:
      return rank == chunk / shape.chunks % shape.ranks;
    default:
      return true;
  }
}

Status check_schedule(const Schedule& schedule) {
  const Shape& shape = schedule.shape;
  Holdings holdings(shape);
  const auto wrong = [&](std::size_t index, std::string_view why) {
    const Transfer& transfer = schedule.transfers[index];
    return fail(ErrorCode::internal,
                fmt::format("{}: transfer {}, of chunk {} from rank {} to rank {}: {}", schedule.generator, index,
                            transfer.chunk, transfer.from, transfer.to, why));
  };
  for (std::size_t index = 0; index < schedule.transfers.size(); ++index) {
    const Transfer& transfer = schedule.transfers[index];
    if (!is_rank(shape, transfer.from) || !is_rank(shape, transfer.to)) return wrong(index, "there is no such rank");
    if (transfer.chunk < 0 || transfer.chunk >= chunks_of(shape)) return wrong(index, "there is no such chunk");
    if (!holdings.at(transfer.chunk, transfer.from)) return wrong(index, "the sender does not have it yet");
    if (holdings.at(transfer.chunk, transfer.to)) return wrong(index, "the receiver has it already");
    holdings.at(transfer.chunk, transfer.to) = true;
  }
  for (int chunk = 0; chunk < chunks_of(shape); ++chunk)
    for (int rank = 0; rank < shape.ranks; ++rank)
      if (wants(shape, chunk, rank) && !holdings.at(chunk, rank))
        return fail(ErrorCode::internal,
                    fmt::format("{}: chunk {} never comes to rank {}", schedule.generator, chunk, rank));
  return {};
}

Schedule without_dead_ends(Schedule schedule) {
  const Shape& shape = schedule.shape;
  if (shape.collective == Collective::all_gather || shape.collective == Collective::broadcast) return schedule;
  std::unordered_set<std::int64_t> taken_from;
  const auto key = [&](int chunk, int rank) { return std::int64_t{chunk} * shape.ranks + rank; };
  std::vector<Transfer> kept;
  for (auto transfer = schedule.transfers.rbegin(); transfer != schedule.transfers.rend(); ++transfer) {
    if (!wants(shape, transfer->chunk, transfer->to) && !taken_from.contains(key(transfer->chunk, transfer->to)))
      continue;
    if (!wants(shape, transfer->chunk, transfer->from)) taken_from.insert(key(transfer->chunk, transfer->from));
    kept.push_back(*transfer);
  }
  std::reverse(kept.begin(), kept.end());
  schedule.transfers = std::move(kept);
  return schedule;
}

}  // namespace tutti
