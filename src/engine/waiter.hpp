// How a thread waits for something to move: it spins while that is cheap, yields for a bounded time, then sleeps.
// With more ranks than cores spinning only takes the core from whoever would bring news, so it yields at once.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <cstdint>

#include "base/clock.hpp"
#include "base/settings.hpp"

namespace tutti {

class Waiter {
 public:
  enum class Next : std::uint8_t { again, sleep };

  explicit Waiter(bool crowded)
      : spin_(crowded ? 0 : ticks_of_microseconds(settings().spin_us)),
        yield_(spin_ + ticks_of_microseconds(settings().yield_us)) {}

  /// Something moved: start over.
  void reset() { since_ = 0; }

  /// One step of waiting. `sleep`: the caller should now sleep, for a millisecond at most, and look again.
  Next pause() {
    const std::uint64_t now = ticks();
    if (since_ == 0) since_ = now;
    const std::uint64_t waited = now - since_;
    if (waited < spin_) {
      for (int i = 0; i < 8; ++i) _mm_pause();
      return Next::again;
    }
    if (waited < yield_) {
      sched_yield();
      return Next::again;
    }
    return Next::sleep;
  }

  /// Microseconds without anything moving.
  double idle_microseconds() const { return since_ == 0 ? 0 : microseconds_since(since_); }

 private:
  std::uint64_t spin_;
  std::uint64_t yield_;
  std::uint64_t since_ = 0;
};

}  // namespace tutti
