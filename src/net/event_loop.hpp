// Waits for descriptors, posted work and the time, on one thread. Time is the monotonic clock less what this process
// lost while it was stopped or starved: after SIGSTOP or a suspended host every deadline moves on, and nobody is blamed
// for this process's own absence.
// post() is for any thread; everything else for the thread that calls run_once(). In a child of fork() it does nothing:
// descriptors may have other meanings there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Seconds on CLOCK_MONOTONIC.
double monotonic_seconds();

class EventLoop {
 public:
  using Ready = std::function<void(std::uint32_t events)>;

  /// A time that does not come.
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  /// Seconds since some moment.
  using Clock = double (*)();

  /// A turn that comes later than it should by more than `absence` seconds is time lost; kNever: none is.
  explicit EventLoop(double absence, Clock clock = monotonic_seconds) : absence_(absence), clock_(clock) {}
  Status open();

  /// Calls `ready` when epoll reports `events` (or an error condition) on the borrowed descriptor. Returns its key.
  Result<std::uint64_t> watch(int descriptor, std::uint32_t events, Ready ready);
  void change(std::uint64_t key, std::uint32_t events);
  /// Before the descriptor is closed. May be called from any callback.
  void unwatch(std::uint64_t key);

  /// Runs `work` on the loop's thread, in order of posting.
  void post(std::function<void()> work);

  /// One turn: waits until something happens, or until `until`, then runs what is due.
  void run_once(double until);
  /// Seconds, as seen by the last turn.
  double now() const { return now_; }
  /// The same with the time that was lost.
  double real_now() const { return now_ + lost_; }

 private:
  struct Watched {
    int descriptor;
    std::uint32_t events;
    std::shared_ptr<Ready> ready;
  };

  void advance_clock(double waited_for);
  void run_posted();
  bool is_forked() const;

  double absence_;
  Clock clock_;
  pid_t owner_ = 0;
  Fd epoll_;
  Fd wake_;
  std::unordered_map<std::uint64_t, Watched> watched_;
  std::uint64_t next_key_ = 1;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  double now_ = 0;
  double lost_ = 0;
  double last_turn_ = -1;
};

}  // namespace tutti
