#include "communicator/operation/seats.hpp"

#include <algorithm>

namespace tutti {

int Seats::rank_at(int seat) const {
  return seat - static_cast<int>(std::lower_bound(free.begin(), free.end(), seat) - free.begin());
}

std::vector<int> Seats::all_taken() const {
  std::vector<int> seats;
  auto next = free.begin();
  for (int seat = 0; seat < total; ++seat)
    if (next != free.end() && *next == seat)
      ++next;
    else
      seats.push_back(seat);
  return seats;
}

Seats Seats::after_loss(std::span<const int> ranks) const {
  Seats left{total, free};
  const std::vector<int> seats = all_taken();
  auto next = ranks.begin();
  for (int rank = 0; rank < taken(); ++rank)
    if (next != ranks.end() && *next == rank)
      ++next;
    else
      left.free.push_back(seats[static_cast<std::size_t>(rank)]);
  std::sort(left.free.begin(), left.free.end());
  return left;
}

std::vector<int> Seats::take(std::span<const int> wishes) {
  std::vector<int> seats(wishes.size(), -1);
  for (std::size_t i = 0; i < wishes.size(); ++i)
    if (std::erase(free, wishes[i]) > 0) seats[i] = wishes[i];
  for (int& seat : seats) {
    if (seat >= 0) continue;
    seat = free.empty() ? total++ : free.front();
    std::erase(free, seat);
  }
  return seats;
}

}  // namespace tutti
