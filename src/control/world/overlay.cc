#include "control/world/overlay.hpp"

#include <utility>

namespace tutti {

std::vector<int> overlay_neighbours(int self, const std::vector<bool>& living) {
  std::vector<int> ring;
  std::size_t place = 0;
  for (std::size_t process = 0; process < living.size(); ++process) {
    if (static_cast<int>(process) == self) place = ring.size();
    if (living[process] || static_cast<int>(process) == self) ring.push_back(static_cast<int>(process));
  }
  std::set<int> neighbours;
  for (std::size_t distance = 1; distance < ring.size(); distance *= 2) {
    neighbours.insert(ring[(place + distance) % ring.size()]);
    neighbours.insert(ring[(place + ring.size() - distance) % ring.size()]);
  }
  return {neighbours.begin(), neighbours.end()};
}

bool SeenBroadcasts::first_time(int origin, std::uint64_t number) {
  Origin& seen = origins_[static_cast<std::size_t>(origin)];
  if (number < seen.all_below || !seen.above.insert(number).second) return false;
  while (!seen.above.empty() && (*seen.above.begin() == seen.all_below || seen.above.size() > kWindow)) {
    seen.all_below = *seen.above.begin() + 1;
    seen.above.erase(seen.above.begin());
  }
  return true;
}

void FloodHistory::add(std::vector<std::byte> frame) {
  bytes_ += frame.size();
  frames_.push_back(std::move(frame));
  while (frames_.size() > kFrames || bytes_ > kBytes) {
    bytes_ -= frames_.front().size();
    frames_.pop_front();
  }
}

}  // namespace tutti
