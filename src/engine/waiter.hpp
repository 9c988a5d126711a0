// How a thread waits for something to move: it spins while that is cheap, yields for a bounded time, then sleeps.
// With more ranks than cores spinning only takes the core from whoever would bring news, so it yields at once.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <atomic>
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

/// What earlier waits have shown, kept from one wait to the next. The scheduler may put two ranks on one core while
/// others are free, or because others are busy. Then spinning keeps from the core the very rank that is waited for, and
/// every call takes as long as a spin. It shows in that whoever gets the core at a yield gives it back soon, and what
/// was waited for is there. Any thread; a hint only, so that relaxed is enough.
struct WaitHabit {
  std::atomic<bool> yields_at_once{false};
};

class Waiter {
 public:
  enum class Next : std::uint8_t { again, sleep };

  explicit Waiter(const WaitPolicy& policy, WaitHabit* habit = nullptr) : policy_(policy), habit_(habit) {}

  /// Something moved: start over.
  void reset() {
    if (shared_core_) habit_->yields_at_once.store(true, std::memory_order_relaxed);
    shared_core_ = false;
    unused_yields_ = 0;
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
    if (waited < policy_.spin && !yields_at_once()) {
      _mm_pause();
      return Next::again;
    }
    if (waited < policy_.yield) {
      yield(now);
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
  static constexpr unsigned kUnused = 8;

  bool yields_at_once() const { return habit_ != nullptr && habit_->yields_at_once.load(std::memory_order_relaxed); }

  /// Lets others have the core, and learns from the time that takes whether one had it that waits as we do. Somebody at
  /// work keeps it for long, and would better not get it so soon; where several yields in a row take no time, nobody
  /// wants it.
  void yield(std::uint64_t now) {
    sched_yield();
    if (habit_ == nullptr || policy_.spin == 0) return;
    const std::uint64_t took = ticks() - now;
    const bool long_gone = took > policy_.spin * 4;
    shared_core_ = !long_gone && (shared_core_ || took > policy_.spin / 16);
    if (shared_core_) return;
    if (long_gone || ++unused_yields_ == kUnused) habit_->yields_at_once.store(false, std::memory_order_relaxed);
  }

  WaitPolicy policy_;
  WaitHabit* habit_;
  bool shared_core_ = false;
  unsigned unused_yields_ = 0;
  unsigned polls_ = 0;
  std::uint64_t since_ = 0;
};

}  // namespace tutti
