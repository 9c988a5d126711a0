#include "communicator/operation/rank_slots.hpp"

#include <algorithm>

namespace tutti {

int RankSlots::rank_at(int slot) const {
  return slot - static_cast<int>(std::lower_bound(free.begin(), free.end(), slot) - free.begin());
}

std::vector<int> RankSlots::all_taken() const {
  std::vector<int> slots;
  auto next = free.begin();
  for (int slot = 0; slot < total; ++slot)
    if (next != free.end() && *next == slot)
      ++next;
    else
      slots.push_back(slot);
  return slots;
}

RankSlots RankSlots::after_loss(std::span<const int> ranks) const {
  RankSlots left{total, free};
  const std::vector<int> slots = all_taken();
  auto next = ranks.begin();
  for (int rank = 0; rank < taken(); ++rank)
    if (next != ranks.end() && *next == rank)
      ++next;
    else
      left.free.push_back(slots[static_cast<std::size_t>(rank)]);
  std::sort(left.free.begin(), left.free.end());
  return left;
}

std::vector<int> RankSlots::take(std::span<const int> wishes) {
  std::vector<int> slots(wishes.size(), -1);
  for (std::size_t i = 0; i < wishes.size(); ++i)
    if (std::erase(free, wishes[i]) > 0) slots[i] = wishes[i];
  for (int& slot : slots) {
    if (slot >= 0) continue;
    slot = free.empty() ? total++ : free.front();
    std::erase(free, slot);
  }
  return slots;
}

}  // namespace tutti
