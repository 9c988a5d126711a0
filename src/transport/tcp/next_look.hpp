// When the thread of a process's TCP transport looks after its peers next. The thread plans each look before it sleeps;
// whoever needs an earlier one says so and wakes it. This is the one place that decides how long the thread sleeps, so
// nothing waits for a look that never comes. A peer holds on to it, also when the transport is gone.
#pragma once

#include <sys/eventfd.h>

#include <atomic>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "transport/lane_slot.hpp"

namespace tutti {

/// Seconds since some moment; cheap enough to be read for every large chunk.
inline double steady_seconds() { return microseconds_since(0) * 1e-6; }

class NextLook {
 public:
  NextLook() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  /// Has the thread look at `time` (steady_seconds) or before. Any thread, with the mutex held that guards what there
  /// is to see: either the thread sees it in the look under way, or that look's begin() is visible here and the thread
  /// is woken. The mutex orders the two, so the atomic itself need not.
  void by(double time) {
    double planned = planned_.load(std::memory_order_relaxed);
    while (time < planned)
      if (planned_.compare_exchange_weak(planned, time, std::memory_order_relaxed)) return ring();
  }
  /// Ends the sleep now.
  void ring() { ::eventfd_write(bell_.get(), 1); }

  // The thread:
  /// Readable once a sleep must end; silence() makes it unreadable.
  int descriptor() const { return bell_.get(); }
  void silence() {
    eventfd_t rings = 0;
    ::eventfd_read(bell_.get(), &rings);
  }
  /// A look begins: whoever asks for another one from now on wakes the thread from the sleep that follows.
  void begin() { planned_.store(kNever, std::memory_order_relaxed); }
  /// The look is over, the next is at `time`, or earlier if somebody asked meanwhile. Returns when.
  double plan(double time) {
    double planned = planned_.load(std::memory_order_relaxed);
    while (time < planned)
      if (planned_.compare_exchange_weak(planned, time, std::memory_order_relaxed)) return time;
    return planned;
  }

 private:
  Fd bell_;
  std::atomic<double> planned_{kNever};
};

}  // namespace tutti
