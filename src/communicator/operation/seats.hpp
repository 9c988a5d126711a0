// The numbers of ranks through losses and gains. Every rank of a communicator that was created has a seat; shrink()
// leaves the seats of the lost free, and numbers the ranks that are left in the order of theirs; grow() fills free
// seats first. So when all seats are taken again, everyone has the number it had at first. A plain value.
#pragma once

#include <span>
#include <vector>

namespace tutti {

struct Seats {
  int total = 0;
  std::vector<int> free;  // ascending

  int taken() const { return total - static_cast<int>(free.size()); }
  /// Of a seat that is taken.
  int rank_at(int seat) const;
  /// By rank.
  std::vector<int> all_taken() const;

  /// Only these ranks, ascending, keep their seats.
  Seats after_loss(std::span<const int> ranks) const;
  /// Seats newcomers, in their order, and returns where. One that wishes for a free seat gets it, the others the lowest
  /// that is left, or a new one.
  std::vector<int> take(std::span<const int> wishes);

  bool operator==(const Seats&) const = default;
};

}  // namespace tutti
