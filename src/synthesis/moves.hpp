// Transfers on their way to becoming steps: which chunks go from rank to rank, whether they are added to what is there.
// Schedules forwards and backwards are told in the same terms. Used by lowering only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "synthesis/schedule.hpp"

namespace tutti {

/// Small, since an exchange among a thousand ranks has tens of millions.
struct Move {
  int chunk = 0;  // the first of `count` consecutive ones
  int from = 0;
  int to = 0;
  std::uint16_t count = 1;
  std::uint8_t channel = 0;
  bool reduces = false;
};
inline constexpr int kMostMovedTogether = 1 << 15;
inline constexpr int kMostChannels = 1 << 8;

/// The moves of a program: those of each rank side by side, in their order; so every move is there twice.
struct Moves {
  std::vector<Move> all;
  std::vector<std::size_t> first_of;  // [rank] where its moves begin; one more at the end

  std::span<const Move> of(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return {all.data() + first_of[at], first_of[at + 1] - first_of[at]};
  }
};

/// What a program of these moves is for, which decides where chunks lie: `shape` is that of the program, `chunks` are
/// numbered as in the schedules.
struct LoweringPurpose {
  Shape shape;     // of the program
  Shape schedule;  // of the schedules it is made of

  /// Where a chunk arrives that comes to a rank.
  Buffer place_of_arrival(int chunk, int rank) const;
};

std::vector<Move> forwards(const Schedule& schedule, int first_channel);
std::vector<Move> backwards(const Schedule& schedule, int first_channel, bool reduces);

/// Makes one move of moves between two ranks of consecutive chunks, wherever the sender has all of them when it sends
/// the first, and they lie side by side in a user's buffer on both ranks. Schedules of enormous numbers of chunks stay
/// as they are.
std::vector<Move> merged(std::vector<Move> moves, const LoweringPurpose& purpose);

Moves by_rank(const std::vector<Move>& moves, int ranks);

/// The moves of the representatives among the ranks, where `moves` are those of a schedule that is the same under
/// `symmetry`.
Moves by_representative(const std::vector<Move>& moves, const Shape& schedule, const Translations& symmetry);

}  // namespace tutti
