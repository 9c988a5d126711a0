#include "synthesis/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace tutti {

namespace {

/// A mark for each chunk on each rank.
class ChunkMarks {
 public:
  explicit ChunkMarks(const Shape& shape)
      : ranks_(static_cast<std::size_t>(shape.ranks)), marks_(static_cast<std::size_t>(chunks_of(shape)) * ranks_) {}

  std::vector<bool>::reference at(int chunk, int rank) {
    return marks_[static_cast<std::size_t>(chunk) * ranks_ + static_cast<std::size_t>(rank)];
  }

 private:
  std::size_t ranks_;
  std::vector<bool> marks_;
};

/// The only rank a chunk goes to; none where all are to have it.
std::optional<int> only_target(const Shape& shape, int chunk) {
  switch (shape.collective) {
    case Collective::gather:
      return shape.root;
    case Collective::scatter:
      return chunk / shape.chunks;
    case Collective::all_to_all:
      return chunk / shape.chunks % shape.ranks;
    default:
      return std::nullopt;
  }
}

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
  return home_of(shape, chunk) == rank || only_target(shape, chunk).value_or(rank) == rank;
}

int translated_chunk(const Shape& shape, int chunk, const Translations& translations, int by) {
  const int block = chunk / shape.chunks, piece = chunk % shape.chunks;
  if (shape.collective != Collective::all_to_all) return translations.translated(block, by) * shape.chunks + piece;
  const int source = translations.translated(block / shape.ranks, by),
            target = translations.translated(block % shape.ranks, by);
  return (source * shape.ranks + target) * shape.chunks + piece;
}

Schedule written_out(const Schedule& schedule) {
  const Translations& symmetry = schedule.symmetry;
  Schedule whole{schedule.generator, schedule.shape, {}};
  const std::vector<int> offsets = symmetry.all();
  whole.transfers.reserve(schedule.transfers.size() * offsets.size());
  for (const auto& [chunk, from, to, channel] : schedule.transfers)
    for (const int by : offsets)
      whole.transfers.push_back({translated_chunk(schedule.shape, chunk, symmetry, by), symmetry.translated(from, by),
                                 symmetry.translated(to, by), channel});
  return whole;
}

Status check_schedule(const Schedule& schedule) {
  const Shape& shape = schedule.shape;
  const auto is_other_moved = [&](int chunk) { return schedule.symmetry.offset_of(home_of(shape, chunk)) != 0; };
  ChunkMarks held(shape);
  for (int chunk = 0; chunk < chunks_of(shape); ++chunk) held.at(chunk, home_of(shape, chunk)) = true;
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
    if (is_other_moved(transfer.chunk)) return wrong(index, "it does not start at a home");
    if (!held.at(transfer.chunk, transfer.from)) return wrong(index, "the sender does not have it yet");
    if (held.at(transfer.chunk, transfer.to)) return wrong(index, "the receiver has it already");
    held.at(transfer.chunk, transfer.to) = true;
  }
  for (int chunk = 0; chunk < chunks_of(shape); ++chunk) {
    if (is_other_moved(chunk)) continue;
    const std::optional<int> target = only_target(shape, chunk);
    for (int rank = target.value_or(0); rank <= target.value_or(shape.ranks - 1); ++rank)
      if (!held.at(chunk, rank))
        return fail(ErrorCode::internal,
                    fmt::format("{}: chunk {} never comes to rank {}", schedule.generator, chunk, rank));
  }
  return {};
}

Schedule without_dead_ends(Schedule schedule) {
  const Shape& shape = schedule.shape;
  if (shape.collective == Collective::all_gather || shape.collective == Collective::broadcast) return schedule;
  ChunkMarks taken_from(shape);
  std::vector<Transfer> kept;
  for (auto transfer = schedule.transfers.rbegin(); transfer != schedule.transfers.rend(); ++transfer) {
    if (!wants(shape, transfer->chunk, transfer->to) && !taken_from.at(transfer->chunk, transfer->to)) continue;
    taken_from.at(transfer->chunk, transfer->from) = true;
    kept.push_back(*transfer);
  }
  std::reverse(kept.begin(), kept.end());
  schedule.transfers = std::move(kept);
  return schedule;
}

}  // namespace tutti
