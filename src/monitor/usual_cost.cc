#include "monitor/usual_cost.hpp"

#include <algorithm>
#include <cmath>

namespace tutti::monitor {
namespace {

constexpr double kPull = 0.25;  // of a new block, towards what it says

}  // namespace

void UsualCost::add(const Cost& window) {
  windows_[count_++] = window;
  if (count_ == kBlock || (!is_known_ && count_ == kFirst)) take();
}

void UsualCost::take() {
  const auto end = windows_.begin() + static_cast<std::ptrdiff_t>(count_);
  std::sort(windows_.begin(), end, [](const Cost& a, const Cost& b) { return a.total() < b.total(); });
  const std::size_t first = count_ / 4;
  const std::size_t last = count_ - first;
  Cost middle;
  for (std::size_t i = first; i < last; ++i) {
    middle.busy += windows_[i].busy;
    middle.late += windows_[i].late;
    middle.starved += windows_[i].starved;
  }
  const auto used = static_cast<double>(last - first);
  middle = {middle.busy / used, middle.late / used, middle.starved / used};
  double deviation = 0;
  for (auto each = windows_.begin(); each != end; ++each)
    deviation += std::abs(each->total() - middle.total()) / static_cast<double>(count_);
  const double pull = is_known_ ? kPull : 1;
  cost_.busy += pull * (middle.busy - cost_.busy);
  cost_.late += pull * (middle.late - cost_.late);
  cost_.starved += pull * (middle.starved - cost_.starved);
  deviation_ += pull * (deviation - deviation_);
  is_known_ = true;
  count_ = 0;
}

void UsualLead::add(double seconds, double bytes, double cost) {
  if (count_ < kBlock) samples_[count_++] = {seconds, bytes};
  if (count_ < kBlock || cost == 0) return;
  const double least = least_of_block(cost);
  seconds_ = is_known_ && least > seconds_ ? seconds_ + kPull * (least - seconds_) : least;
  is_known_ = true;
  count_ = 0;
}

double UsualLead::seconds(double cost) const {
  if (is_known_ || count_ == 0 || cost == 0) return seconds_;
  return least_of_block(cost);
}

double UsualLead::least_of_block(double cost) const {
  double least = samples_[0].beyond(cost);
  for (std::size_t i = 1; i < count_; ++i) least = std::min(least, samples_[i].beyond(cost));
  return least;
}

}  // namespace tutti::monitor
