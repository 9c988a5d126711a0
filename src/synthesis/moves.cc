#include "synthesis/moves.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace tutti {

Buffer LoweringPurpose::place_of_arrival(int chunk, int rank) const {
  switch (shape.collective) {
    case Collective::all_reduce:
      return Buffer::output;
    case Collective::reduce_scatter:
    case Collective::reduce:
      return home_of(schedule, chunk) == rank ? Buffer::output : Buffer::scratch;
    default:
      return wants(schedule, chunk, rank) ? Buffer::output : Buffer::scratch;
  }
}

std::vector<Move> forwards(const Schedule& schedule, int first_channel) {
  std::vector<Move> moves;
  moves.reserve(schedule.transfers.size());
  for (const Transfer& transfer : schedule.transfers)
    moves.push_back({.chunk = transfer.chunk,
                     .from = transfer.from,
                     .to = transfer.to,
                     .channel = static_cast<std::uint8_t>(first_channel + transfer.channel)});
  return moves;
}

std::vector<Move> backwards(const Schedule& schedule, int first_channel, bool reduces) {
  std::vector<Move> moves;
  moves.reserve(schedule.transfers.size());
  for (auto transfer = schedule.transfers.rbegin(); transfer != schedule.transfers.rend(); ++transfer)
    moves.push_back({.chunk = transfer->chunk,
                     .from = transfer->to,
                     .to = transfer->from,
                     .channel = static_cast<std::uint8_t>(first_channel + transfer->channel),
                     .reduces = reduces});
  return moves;
}

namespace {

/// Follows where every chunk lies on every rank, and when it was last touched there.
class MoveMerger {
 public:
  MoveMerger(const LoweringPurpose& purpose, std::size_t cells)
      : purpose_(purpose), ranks_(static_cast<std::size_t>(purpose.shape.ranks)), cells_(cells) {}

  /// To be called with every move before the first is added.
  void expect(const Move& move) {
    if (move.reduces) ++cell(move.chunk, move.to).additions;
  }

  void add(const Move& move) {
    ChunkState& source = cell(move.chunk, move.from);
    ChunkState& target = cell(move.chunk, move.to);
    const Buffer arrival = purpose_.place_of_arrival(move.chunk, move.to);
    const bool completes = target.additions == 1 && home_of(purpose_.schedule, move.chunk) == move.to;
    const Way way{move.from, move.to, move.channel, move.reduces, completes};
    const auto open = open_.find(way);
    const bool joins = open != open_.end() && fits(open->second, move, source, target, arrival);
    if (!joins) {
      open_[way] = {moves_.size(), source.place, target.place, arrival};
      moves_.push_back(move);
    } else {
      ++moves_[open->second.index].count;
    }
    const auto now = static_cast<std::int64_t>(joins ? open->second.index : moves_.size() - 1);
    source.touched = std::max(source.touched, now);
    target = {arrival, now, target.additions - (move.reduces ? 1 : 0)};
  }

  std::vector<Move> finish() && { return std::move(moves_); }

 private:
  using Way = std::tuple<int, int, int, bool, bool>;
  struct ChunkState {
    Buffer place = Buffer::input;
    std::int64_t touched = -1;
    int additions = 0;  // still to come
  };
  struct OpenMove {
    std::size_t index = 0;
    Buffer source, before, arrival;  // where the chunks lie: on the sender; on the receiver, before and after
  };

  ChunkState& cell(int chunk, int rank) {
    return cells_[static_cast<std::size_t>(chunk) * ranks_ + static_cast<std::size_t>(rank)];
  }

  bool fits(const OpenMove& open, const Move& move, const ChunkState& source, const ChunkState& target,
            Buffer arrival) const {
    const Move& first = moves_[open.index];
    const auto then = static_cast<std::int64_t>(open.index);
    return move.chunk == first.chunk + first.count && first.count < kMostMovedTogether && source.touched < then &&
           target.touched < then && open.source == source.place && open.before == target.place &&
           open.arrival == arrival && source.place != Buffer::scratch && arrival != Buffer::scratch &&
           side_by_side(move);
  }

  /// Cells of an exchange's blocks lie side by side only within a block.
  bool side_by_side(const Move& move) const {
    return purpose_.shape.collective != Collective::all_to_all || move.chunk % purpose_.schedule.chunks != 0;
  }

  const LoweringPurpose& purpose_;
  std::size_t ranks_;
  std::vector<ChunkState> cells_;
  std::map<Way, OpenMove> open_;
  std::vector<Move> moves_;
};

constexpr std::size_t kMostCells = std::size_t{1} << 26;

}  // namespace

std::vector<Move> merged(std::vector<Move> moves, const LoweringPurpose& purpose) {
  const std::size_t cells =
      static_cast<std::size_t>(chunks_of(purpose.schedule)) * static_cast<std::size_t>(purpose.shape.ranks);
  if (cells > kMostCells) return moves;
  MoveMerger merger(purpose, cells);
  for (const Move& move : moves) merger.expect(move);
  for (const Move& move : moves) merger.add(move);
  return std::move(merger).finish();
}

Moves by_rank(const std::vector<Move>& moves, int ranks) {
  Moves sorted;
  sorted.first_of.assign(static_cast<std::size_t>(ranks) + 1, 0);
  const auto end_of = [&](int rank) -> std::size_t& { return sorted.first_of[static_cast<std::size_t>(rank) + 1]; };
  for (const Move& move : moves) ++end_of(move.from), ++end_of(move.to);
  for (int rank = 0; rank < ranks; ++rank) end_of(rank) += sorted.first_of[static_cast<std::size_t>(rank)];
  sorted.all.resize(moves.size() * 2);
  auto next = sorted.first_of;
  for (const Move& move : moves)
    for (const int rank : {move.from, move.to}) sorted.all[next[static_cast<std::size_t>(rank)]++] = move;
  return sorted;
}

Moves by_representative(const std::vector<Move>& moves, const Shape& schedule, const Translations& symmetry) {
  std::vector<std::vector<Move>> of(static_cast<std::size_t>(schedule.ranks));
  for (const Move& move : moves)
    for (const int rank : {move.from, move.to}) {
      const int by = symmetry.opposite(symmetry.offset_of(rank));
      Move image = move;
      image.chunk = translated_chunk(schedule, move.chunk, symmetry, by);
      image.from = symmetry.translated(move.from, by);
      image.to = symmetry.translated(move.to, by);
      of[static_cast<std::size_t>(symmetry.representative_of(rank))].push_back(image);
    }
  Moves sorted;
  for (const auto& own : of) {
    sorted.first_of.push_back(sorted.all.size());
    sorted.all.insert(sorted.all.end(), own.begin(), own.end());
  }
  sorted.first_of.push_back(sorted.all.size());
  return sorted;
}

}  // namespace tutti
