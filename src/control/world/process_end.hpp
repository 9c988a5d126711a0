// The end of a process of this host, as its descriptor tells it. One thread, that of the event loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/fd.hpp"
#include "control/control_peer.hpp"
#include "net/event_loop.hpp"

namespace tutti {

class ProcessEnd {
 public:
  explicit ProcessEnd(EventLoop& loop) : loop_(loop) {}
  ~ProcessEnd() { stop(); }
  ProcessEnd(const ProcessEnd&) = delete;
  ProcessEnd& operator=(const ProcessEnd&) = delete;

  /// Begins to watch a process of this host, if it is not watched yet and can be. `ended` is called at its end, from
  /// within here if it is over already.
  void watch(const ControlPeer& process, std::function<void()> ended);
  void stop();

  /// Returns whether the end would be seen without heartbeats. Also true afterwards.
  bool is_watched() const { return watched_; }
  /// Returns when the end was seen; none: not yet.
  std::optional<double> seen_at() const { return seen_at_; }

 private:
  void see();

  EventLoop& loop_;
  Fd descriptor_;  // a pidfd
  std::uint64_t key_ = 0;
  bool watched_ = false;
  std::optional<double> seen_at_;
  std::function<void()> ended_;
};

}  // namespace tutti
