#include "program/check/check_orbits.hpp"

#include <utility>

namespace tutti::checking {

Orbits::Orbits(Translations translations, const Shape& shape)
    : translations_(std::move(translations)), shape_(shape), offset_of_move_(translations_.all()) {
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  representative_index_.resize(ranks);
  move_of_.resize(ranks);
  rows_.resize(offset_of_move_.size());
  // The offset of a move is also a rank: the one that rank 0, which is a representative, is moved to.
  for (std::size_t move = 0; move < offset_of_move_.size(); ++move)
    move_of_[static_cast<std::size_t>(offset_of_move_[move])] = static_cast<int>(move);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const int representative = translations_.representative_of(rank);
    if (representative == rank) representatives_.push_back(rank);
    // Homes come before the ranks they are moved to.
    representative_index_[at] = representative == rank
                                    ? static_cast<int>(representatives_.size()) - 1
                                    : representative_index_[static_cast<std::size_t>(representative)];
    move_of_[at] = move_of_[static_cast<std::size_t>(rank - representative)];
  }
  for (const int offset : offset_of_move_)
    opposite_.push_back(move_of_[static_cast<std::size_t>(translations_.opposite(offset))]);
}

const std::vector<int>& Orbits::row(int move) const {
  std::vector<int>& row = rows_[static_cast<std::size_t>(move)];
  if (row.empty())
    for (const int offset : offset_of_move_) row.push_back(move_of(moved_rank(offset, move)));
  return row;
}

int Orbits::moved_extent(int extent, int move) const {
  if (move == 0) return extent;
  const int chunks = shape_.chunks;
  switch (shape_.collective) {
    case Collective::all_reduce:
      return moved_chunk(Buffer::input, extent, move);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return moved_rank(extent / chunks, move) * chunks + extent % chunks;
    case Collective::all_to_all: {
      const int pair = extent / chunks;
      const int source = moved_rank(pair / shape_.ranks, move), target = moved_rank(pair % shape_.ranks, move);
      return (source * shape_.ranks + target) * chunks + extent % chunks;
    }
    default:
      return extent;
  }
}

}  // namespace tutti::checking
