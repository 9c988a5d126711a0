// How a thread waits for something to move: it spins while that is cheap, yields for a bounded time, then sleeps.
// With more ranks than cores spinning only takes the core from whoever would bring news, so it yields at once.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <cstdint>

#include "base/clock.hpp"
#include "base/settings.hpp"

namespace tutti {

/// How long to spin and to yield, in ticks.
struct WaitPolicy {
  std::uint64_t spin = 0;
  std::uint64_t yield = 0;  // from the start of the wait

  static WaitPolicy of(bool crowded) {
    WaitPolicy policy;
    if (!crowded) policy.spin = ticks_of_microseconds(settings().spin_us);
    policy.yield = policy.spin + ticks_of_microseconds(settings().yield_us);
    return policy;
  }
};

class Waiter {
 public:
  enum class Next : std::uint8_t { again, sleep };

  explicit Waiter(const WaitPolicy& policy) : policy_(policy) {}

  /// Something moved: start over.
  void reset() {
    polls_ = 0;
    since_ = 0;
  }

  /// One step of waiting. `sleep`: the caller should now sleep, for a millisecond at most, and look again.
  Next pause() {
    // What comes within a microsecond or two is met without a pause, which would take longer than the news.
    if (++polls_ < kEager && policy_.spin > 0) return Next::again;
    const std::uint64_t now = ticks();
    if (since_ == 0) since_ = now;
    const std::uint64_t waited = now - since_;
    if (waited < policy_.spin) {
      _mm_pause();
      return Next::again;
    }
    if (waited < policy_.yield) {
      sched_yield();
      return Next::again;
    }
    return Next::sleep;
  }

  /// When, in ticks, the wait began; 0: it has not.
  std::uint64_t since() const { return since_; }

  /// Microseconds without anything moving.
  double idle_microseconds() const { return since_ == 0 ? 0 : microseconds_since(since_); }

 private:
  static constexpr unsigned kEager = 64;

  WaitPolicy policy_;
  unsigned polls_ = 0;
  std::uint64_t since_ = 0;
};

}  // namespace tutti
