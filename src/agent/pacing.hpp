// How the agent keeps itself small when things go wrong: lines of log, and its own CPU time.
// Plain values that are told the time (seconds, monotonic); one thread.
#pragma once

#include <time.h>

#include <algorithm>

#include "base/rate_limited_log.hpp"

namespace tutti::agent {

inline constexpr double kLogInterval = 60;  // seconds between warnings of one kind

/// CPU time of this process so far.
inline double process_cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

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
