// When the leader of an agreement by trees asks those once more whose answer is missing, and whom: a member between
// them and the leader may have died or stand still.
//
// Visits come again and again, with a pause that the leader sets, and for certain a grace before its wait is over. If
// more are missing than can be reached at once, they take turns, a few at a time and soon one after another. It has no
// clock and sends nothing. Plain values; one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "control/agreement/member_set.hpp"

namespace tutti {

class VisitSchedule {
 public:
  /// `used`: there are members between others and the leader, or no visit is ever due.
  VisitSchedule(double grace, bool used) : grace_(grace), used_(used) {}

  bool is_due(double now) const { return now >= at_; }
  double next_tick() const { return at_; }
  void stop() { at_ = kNever; }
  /// Plans the first visit of a wait, after `pause` seconds.
  void begin(double now, double pause, double wait_until) {
    pause_ = pause;
    plan(now, wait_until);
  }
  /// Plans the next visit.
  void plan(double now, double wait_until) {
    if (!used_) return;
    const double last = wait_until - grace_;
    at_ = now + pause_;
    if (last > now) at_ = std::min(at_, last);
  }
  /// Has the next visit come soon: others are still to be asked, or may have lost who was above them.
  void hasten(double now) {
    if (used_) at_ = std::min(at_, now + grace_ / 4);
  }
  /// All whose join is missing were asked, and may just be late: doubles the pause.
  void slow_down() { pause_ *= 2; }

  /// Returns whom of `missing` to ask now, `most` at most: those who were not asked the last time come first.
  MemberSet choose(const MemberSet& missing, std::size_t most) {
    if (missing.count() <= most) return missing;
    const std::vector<int> members = listed(missing);
    const auto first = static_cast<std::size_t>(missing.count_below(cursor_));
    MemberSet asked(missing.size());
    for (std::size_t place = first; place < first + most; ++place) asked.add(members[place % members.size()]);
    cursor_ = members[(first + most) % members.size()];
    return asked;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  double grace_;
  bool used_;
  double at_ = kNever;
  double pause_ = 0;
  int cursor_ = 0;  // whom to ask first, if not all are asked at once
};

}  // namespace tutti
