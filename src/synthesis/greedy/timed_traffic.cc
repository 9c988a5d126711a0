#include "synthesis/greedy/timed_traffic.hpp"

#include <algorithm>

namespace tutti {

Ticks TimedTraffic::start(int way, int flight) {
  const TimedWay& taken = network_.way(way);
  free_again_.clear();
  network_.take(taken, now_, free_again_);
  for (const Ticks time : free_again_) events_.push({std::max(time, now_), ~way});
  events_.push({now_ + taken.time, flight});
  return now_ + taken.time;
}

const std::vector<int>& TimedTraffic::advance() {
  arrived_.clear();
  now_ = events_.top().at;
  while (!events_.empty() && events_.top().at == now_) {
    const int what = events_.top().what;
    events_.pop();
    if (what >= 0) {
      arrived_.push_back(what);
      continue;
    }
    open_links_.clear();
    network_.collect_open_links(network_.way(~what), now_, open_links_);
    for (const int link : open_links_) touch_behind(link);
  }
  return arrived_;
}

void TimedTraffic::offer(int rank) {
  for (const int outlet : network_.outlets(rank))
    if (network_.is_open(outlet, now_)) touch_behind(outlet);
}

void TimedTraffic::touch(int inlet) {
  if (is_touched_[static_cast<std::size_t>(inlet)]) return;
  is_touched_[static_cast<std::size_t>(inlet)] = true;
  touched_.push_back(inlet);
}

void TimedTraffic::touch_behind(int link) {
  for (const int inlet : network_.fan(link).inlets) touch(inlet);
  touches_broad_ |= network_.fan(link).is_broad;
}

void TimedTraffic::touch_all() {
  for (int inlet = 0; inlet < static_cast<int>(network_.inlets().size()); ++inlet) touch(inlet);
}

const std::vector<int>& TimedTraffic::take_touched() {
  if (touches_broad_)
    for (const int inlet : network_.broad_inlets()) touch(inlet);
  touches_broad_ = false;
  taken_.swap(touched_);
  touched_.clear();
  for (const int inlet : taken_) is_touched_[static_cast<std::size_t>(inlet)] = false;
  std::sort(taken_.begin(), taken_.end());
  return taken_;
}

}  // namespace tutti
