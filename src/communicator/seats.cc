#include "communicator/seats.hpp"

#include <algorithm>

namespace tutti {

int Seats::rank_at(int seat) const {
  return seat - static_cast<int>(std::lower_bound(free.begin(), free.end(), seat) - free.begin());
}

int Seats::seat_of(int rank) const {
  int seat = rank;
  for (const int empty : free) {
    if (empty > seat) break;
    ++seat;
  }
  return seat;
}

Seats Seats::after_loss(std::span<const int> ranks) const {
  Seats left{total, {}};
  std::size_t next = 0;
  for (int seat = 0; seat < total; ++seat)
    if (next < ranks.size() && seat_of(ranks[next]) == seat)
      ++next;
    else
      left.free.push_back(seat);
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
