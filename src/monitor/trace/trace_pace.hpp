// How long to wait until rings are read again: so often that they do not wrap in between, and not more often than it
// takes. A value.
#pragma once

#include <algorithm>

namespace tutti::monitor {

class TracePace {
 public:
  static constexpr double kShortest = 0.0002;  // seconds
  static constexpr double kLongest = 0.05;

  double seconds() const { return seconds_; }
  /// `fill`: the largest share of a ring that was new at the last reading.
  void take(double fill) {
    if (fill > kAim)
      seconds_ = std::max(kShortest, seconds_ * (fill >= 1 ? 0.25 : kAim / fill));
    else
      seconds_ = std::min(kLongest, seconds_ * (fill < kAim / 2 ? 1.5 : 1));
  }

 private:
  static constexpr double kAim = 0.3;

  double seconds_ = 0.001;
};

}  // namespace tutti::monitor
