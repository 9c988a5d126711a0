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
  void reset() { since_ = 0; }

  /// One step of waiting. `sleep`: the caller should now sleep, for a millisecond at most, and look again.
  Next pause() {
    const std::uint64_t now = ticks();
    if (since_ == 0) since_ = now;
    const std::uint64_t waited = now - since_;
    if (waited < policy_.spin) {
      for (int i = 0; i < 8; ++i) _mm_pause();
      return Next::again;
    }
    if (waited < policy_.yield) {
      sched_yield();
      return Next::again;
    }
    return Next::sleep;
  }

  /// Microseconds without anything moving.
  double idle_microseconds() const { return since_ == 0 ? 0 : microseconds_since(since_); }

 private:
  WaitPolicy policy_;
  std::uint64_t since_ = 0;
};

}  // namespace tutti
