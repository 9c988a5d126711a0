// Keeps the numbers of ranks when some are lost and others join. Every rank of a new communicator has a slot. shrink()
// frees the slots of lost ranks and numbers the remaining ranks in the order of their slots. grow() fills free slots
// first. So when all slots are taken again, every rank has the number it had at first. A plain value.
#pragma once

#include <span>
#include <vector>

namespace tutti {

struct RankSlots {
  int total = 0;
  std::vector<int> free;  // ascending

  int taken() const { return total - static_cast<int>(free.size()); }
  /// Returns the rank that occupies `slot`, which must be taken.
  int rank_at(int slot) const;
  /// Returns the slot of each rank.
  std::vector<int> all_taken() const;

  /// Returns the slots when only these ranks, ascending, are left.
  RankSlots after_loss(std::span<const int> ranks) const;
  /// Gives slots to newcomers, in their order, and returns them. A newcomer that asks for a free slot gets it; the
  /// others get the lowest that is left, or a new one.
  std::vector<int> take(std::span<const int> wishes);

  bool operator==(const RankSlots&) const = default;
};

}  // namespace tutti
