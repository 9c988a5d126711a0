// Time. Ticks are the CPU's time stamp counter, calibrated once against CLOCK_MONOTONIC; Deadline is what every wait
// carries. Any thread.
#pragma once

#include <x86intrin.h>

#include <chrono>
#include <cstdint>
#include <limits>

namespace tutti {

inline std::uint64_t ticks() { return __rdtsc(); }
double ticks_per_microsecond();
inline std::uint64_t ticks_of_microseconds(double us) {
  return static_cast<std::uint64_t>(us * ticks_per_microsecond());
}
inline double microseconds_since(std::uint64_t start) {
  return static_cast<double>(ticks() - start) / ticks_per_microsecond();
}

/// A point in time after which a wait gives up. The default never comes.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  Deadline() = default;
  static Deadline never() { return {}; }
  static Deadline in(double seconds);

  bool is_never() const { return at_ == Clock::time_point::max(); }
  bool passed() const { return !is_never() && Clock::now() >= at_; }
  /// For poll and epoll_wait: milliseconds left, rounded up, at most `limit`; 0 when passed.
  int poll_milliseconds(int limit = std::numeric_limits<int>::max()) const;
  double seconds_left() const;
  static Deadline earlier(Deadline a, Deadline b) { return a.at_ < b.at_ ? a : b; }

 private:
  Clock::time_point at_ = Clock::time_point::max();
};

}  // namespace tutti
