// How the agent keeps itself small when things go wrong: pauses between attempts, lines of log, and its own CPU time.
// Plain values that are told the time (seconds, monotonic); one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>

#include "base/rate_limited_log.hpp"

namespace tutti::agent {

/// Pauses that double from `first` to `most`, each shortened at random by up to a quarter, so that agents of many hosts
/// do not come back together.
class Backoff {
 public:
  Backoff(double first, double most, std::uint32_t seed = std::random_device{}())
      : first_(first), most_(most), pause_(first), random_(seed) {}

  double next() {
    const double pause = std::exchange(pause_, std::min(2 * pause_, most_));
    return pause * std::uniform_real_distribution<double>(0.75, 1.0)(random_);
  }
  void reset() { pause_ = first_; }

 private:
  double first_, most_, pause_;
  std::minstd_rand random_;
};

inline constexpr double kLogInterval = 60;  // seconds between warnings of one kind

/// A share of a core, on average. Work may run ahead of it by `burst` seconds of CPU; then it waits.
class CpuBudget {
 public:
  explicit CpuBudget(double share = 0.0015, double burst = 0.005) : share_(share), burst_(burst), left_(burst) {}

  void spend(double cpu_seconds, double now) {
    earn(now);
    left_ -= cpu_seconds;
  }
  /// Seconds until there is something left.
  double wait(double now) {
    earn(now);
    return left_ >= 0 ? 0 : -left_ / share_;
  }

 private:
  void earn(double now) {
    if (last_ > 0) left_ = std::min(burst_, left_ + share_ * (now - last_));
    last_ = now;
  }

  double share_, burst_, left_;
  double last_ = 0;
};

}  // namespace tutti::agent
