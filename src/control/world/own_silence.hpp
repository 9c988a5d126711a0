// Whether the others may have presumed this process dead, because it sent nothing for too long: it was stopped, or its
// thread had no core. Times are seconds on a clock that goes on meanwhile. A value; one thread.
#pragma once

#include <optional>

namespace tutti {

class OwnSilence {
 public:
  explicit OwnSilence(double heartbeat_timeout) : timeout_(heartbeat_timeout) {}

  /// Heartbeats go out now. To be called for each.
  void beat(double now) {
    if (is_too_long(now)) doubted_until_ = now + timeout_;
    last_beat_ = now;
  }
  /// Returns whether somebody may count this process as dead: it is silent for too long, or was a short time ago.
  bool may_be_presumed_dead(double now) const { return is_too_long(now) || now < doubted_until_; }

  /// Of the time after which a silent process is presumed dead: nobody does so earlier. Heartbeats may be on their way.
  static constexpr double kSafePart = 0.75;

 private:
  bool is_too_long(double now) const { return last_beat_ && now - *last_beat_ > kSafePart * timeout_; }

  double timeout_;
  std::optional<double> last_beat_;
  double doubted_until_ = 0;
};

}  // namespace tutti
