// Time. Ticks are the CPU's time stamp counter, calibrated once against CLOCK_MONOTONIC; where the counter stands still
// or differs between cores, they are the nanoseconds of that clock, which cost more. Deadline is what every wait
// carries. Any thread.
#pragma once

#include <x86intrin.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string_view>

namespace tutti {

/// Whether the time stamp counter serves: the CPU must promise a constant rate, and the kernel, which compares the
/// counters of all cores, must still offer it as a clock source. `available`: its list; empty if it is not known.
bool is_counter_steady(bool cpu_promises, std::string_view available);

/// The answer for this host, found before main(). Only tests change it.
[[gnu::visibility("hidden")]] extern bool g_is_counter_unsteady;
std::uint64_t monotonic_nanoseconds_now();

inline std::uint64_t ticks() {
  if (g_is_counter_unsteady) [[unlikely]]
    return monotonic_nanoseconds_now();
  return __rdtsc();
}
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
