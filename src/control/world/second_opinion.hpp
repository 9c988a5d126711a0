// What others say about a process that this one does not hear: it asks them before it presumes a death, and answers
// when they ask. A process that somebody hears lives. Times are parts of the time after which a silent process counts
// as dead. No sockets, no clock. A value; one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tutti {

class SecondOpinion {
 public:
  explicit SecondOpinion(double heartbeat_timeout) : timeout_(heartbeat_timeout) {}

  /// This process has heard it: whoever was asked need not answer any more.
  void heard() { asked_at_.reset(); }
  /// Returns whether the others are to be asked now, and counts them as asked if so.
  bool ask(double now) {
    if (asked_at_ && now < ask_again_at_) return false;
    if (!asked_at_) asked_at_ = now;
    ask_again_at_ = now + kAskAgainPart * timeout_;
    return true;
  }
  /// Returns whether the others were asked and had the time to answer.
  bool had_time(double now) const { return asked_at_ && now >= *asked_at_ + kAnswerPart * timeout_; }

  /// Another process says that it hears this one.
  void add_hearer(int process, double now) {
    heard_elsewhere_until_ = now + kBelievePart * timeout_;
    std::erase(hearers_, process);
    hearers_.insert(hearers_.begin(), process);
    if (hearers_.size() > kHearers) hearers_.pop_back();
  }
  bool is_heard_elsewhere(double now) const { return now < heard_elsewhere_until_; }
  /// Returns who said so, the latest first.
  const std::vector<int>& hearers() const { return hearers_; }

  /// Returns whether to answer another process that asks, while this one hears it. One answer is enough for all who ask
  /// at the same time.
  bool answer(double now) {
    if (now < answered_at_ + kAnswerPart / 4 * timeout_) return false;
    answered_at_ = now;
    return true;
  }

  /// Of the time after which it counts as dead, a process is silent for this part before others are asked.
  static constexpr double kAskPart = 0.6;

 private:
  static constexpr double kAskAgainPart = 0.1;
  static constexpr double kAnswerPart = 0.1;   // they get to answer
  static constexpr double kBelievePart = 0.5;  // an answer counts
  static constexpr std::size_t kHearers = 4;   // that are remembered

  double timeout_;
  std::optional<double> asked_at_;  // first, since it was last heard
  double ask_again_at_ = 0;
  double heard_elsewhere_until_ = 0;
  double answered_at_ = 0;
  std::vector<int> hearers_;
};

}  // namespace tutti
