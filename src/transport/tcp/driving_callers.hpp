// The callers that drive the data connections of a process. They say when they do, sleep here while there is nothing to
// move, and are woken; the transport's thread asks whether there are any, and drives itself if not. Any thread, but for
// is_driven().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/fd.hpp"

namespace tutti {

class DrivingCallers {
 public:
  DrivingCallers();

  /// Returns whether the kernel gave it the descriptor that it needs.
  bool is_usable() const { return static_cast<bool>(bell_); }
  /// Takes note that the caller drives.
  void drove() { drives_.fetch_add(1, std::memory_order_relaxed); }
  /// Sleeps until the descriptor `data` is readable, wake() was called, or the time is over. Returns at once if wake()
  /// was called, for anyone, since the calling thread last returned from here.
  void wait(int data, std::chrono::microseconds at_most);
  void wake();

  /// Returns whether a caller has driven since this was last asked, or sleeps. The thread only.
  bool is_driven();

 private:
  Fd bell_;  // readable once sleepers are to wake
  std::atomic<std::uint64_t> drives_{0};
  std::atomic<int> sleepers_{0};
  std::uint64_t drives_seen_ = 0;  // by the thread
};

}  // namespace tutti
