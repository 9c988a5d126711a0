// What members of a branch have said, joins or accepts, on its way up a tree: passed on as one message once all of the
// branch have spoken, or, if some do not, after a pause that doubles, so that slow members delay nobody and cause few
// messages. Holds only the numbers of members; the owner holds their messages. Plain values; one thread at a time.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>

#include "control/agreement/member_set.hpp"

namespace tutti {

class Gathering {
 public:
  /// Of members that `expected` holds, at least, for member `to`. Pauses are parts of `grace` seconds.
  Gathering(int to, MemberSet expected, double grace)
      : to_(to),
        expected_(std::move(expected)),
        got_(expected_.size()),
        sent_(expected_.size()),
        pause_(grace / kFirstPart),
        longest_(grace / kLastPart) {}

  int to() const { return to_; }
  /// From now on it is for another member.
  void turn_to(int member) { to_ = member; }
  void send_again() { sent_ = MemberSet(got_.size()); }
  void expect(MemberSet members) { expected_ = std::move(members); }
  const MemberSet& expected() const { return expected_; }
  void forget(int member) { expected_.remove(member); }

  void add(double now, const MemberSet& members) {
    got_ |= members;
    if (due_ == kNever) due_ = now + pause_;
  }
  /// Returns those to be passed on now; mostly nobody.
  MemberSet take(double now) {
    MemberSet unsent = got_ - sent_;
    if (unsent.empty()) {
      due_ = kNever;
    } else if (now >= due_ || (expected_ - got_).empty()) {
      sent_ |= unsent;
      due_ = kNever;
      pause_ = std::min(2 * pause_, longest_);
      return unsent;
    }
    return MemberSet(got_.size());
  }
  /// When to take at the latest.
  double next_tick() const { return due_; }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr double kFirstPart = 40;
  static constexpr double kLastPart = 5;

  int to_;
  MemberSet expected_;
  MemberSet got_;
  MemberSet sent_;
  double pause_;
  double longest_;
  double due_ = kNever;
};

}  // namespace tutti
