// Which ranks of a program do the same, moved (translated_parts.hpp), so that the checker follows one of each kind: a
// *representative*. A *move* is a translation, numbered from 0; move 0 moves nothing. If the program has no symmetry,
// every rank is a representative and there is one move. Every rank is one representative moved by one move. Internal to
// the checker; used by one thread.
#pragma once

#include <vector>

#include "program/program.hpp"
#include "program/translated_parts.hpp"

namespace tutti::checking {

class Orbits {
 public:
  Orbits() = default;
  Orbits(Translations translations, const Shape& shape);

  /// Number of moves.
  int moves() const { return static_cast<int>(offset_of_move_.size()); }
  const std::vector<int>& representatives() const { return representatives_; }
  /// The representative that a rank is moved from, as an index into representatives().
  int representative_index(int rank) const { return representative_index_[static_cast<std::size_t>(rank)]; }
  /// The move that takes its representative to a rank.
  int move_of(int rank) const { return move_of_[static_cast<std::size_t>(rank)]; }

  int moved_rank(int rank, int move) const {
    return move == 0 ? rank : translations_.translated(rank, offset_of_move_[static_cast<std::size_t>(move)]);
  }
  /// First one move, then the other.
  int both(int move, int other) const {
    if (move == 0) return other;
    return other == 0 ? move : row(other)[static_cast<std::size_t>(move)];
  }
  int opposite(int move) const { return opposite_[static_cast<std::size_t>(move)]; }
  /// both(m, move) for every move m.
  const std::vector<int>& row(int move) const;

  /// Where a move takes a chunk of a buffer, and a part of the operation (check_cells.hpp).
  int moved_chunk(Buffer buffer, int chunk, int move) const {
    const int block = move == 0 ? 0 : chunks_of_block(shape_, buffer);
    return block == 0 ? chunk : moved_rank(chunk / block, move) * block + chunk % block;
  }
  int moved_extent(int extent, int move) const;

 private:
  Translations translations_;
  Shape shape_;
  std::vector<int> representatives_;
  std::vector<int> representative_index_;  // by rank
  std::vector<int> move_of_;               // by rank
  std::vector<int> offset_of_move_;        // as Translations counts them
  std::vector<int> opposite_;
  mutable std::vector<std::vector<int>> rows_;  // by move, made when asked for
};

}  // namespace tutti::checking
