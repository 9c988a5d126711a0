// When a member of an agreement stops waiting: for joins, for accepts, for a sign of the leader, for a presumed death
// to become known, and altogether. All limits follow from two times, how long members may take to start and to answer.
//
// The wait of a term belongs to whoever leads or follows in it: a leader waits for joins, and then for accepts; another
// member for its leader, a grace longer at each step, so that the leader gives up first. It has no clock: times are
// seconds of its owner's. Plain values; one thread at a time.
#pragma once

#include <algorithm>
#include <limits>

namespace tutti {

struct AgreementTiming {
  double join_wait = 10.0;  // seconds to wait for members that have not started
  double grace = 1.0;       // seconds to wait for an answer of a member that has
};

class AgreementTimers {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  explicit AgreementTimers(AgreementTiming timing) : timing_(timing) {}

  double grace() const { return timing_.grace; }
  void start(double now) {
    join_deadline_ = now + timing_.join_wait;
    limit_ = join_deadline_ + 6 * timing_.grace;
    last_limit_ = limit_ + timing_.join_wait + 6 * timing_.grace;
  }
  /// A term has begun: its leader waits for joins, the others for the leader.
  void enter_term(double now) {
    refuse_at_ = kNever;
    wait_until_ = std::max(join_deadline_, now + 2 * timing_.grace);
  }

  /// The leader, which has proposed, waits for accepts. The proposal takes `transfer` seconds to all.
  void wait_for_accepts(double now, double transfer) {
    wait_until_ = now + 2 * timing_.grace + transfer;
    extend_limit(now, transfer);
  }
  /// This member, which has the proposal, waits for the decision.
  void wait_for_decision(double now, double transfer) {
    wait_until_ = now + 4 * timing_.grace + transfer;
    extend_limit(now, transfer);
  }
  /// The leader says that it may take `seconds` until it is heard again.
  void wait_for_leader(double now, double seconds) {
    wait_until_ = now + seconds + 2 * timing_.grace;
    extend_limit(now, seconds);
  }
  double wait_until() const { return wait_until_; }
  bool wait_is_over(double now) const { return now >= wait_until_; }
  /// Returns how long it may take until a leader is heard again.
  double seconds_left(double now) const { return std::max(0.0, wait_until_ - now); }
  /// Returns what the leader said of this, as far as another member knows.
  double seconds_said(double now) const { return std::max(0.0, wait_until_ - 2 * timing_.grace - now); }

  /// The rest are too few for a quorum. News that a death is known may be on its way, so that they refuse soon.
  void refuse_soon(double now) { refuse_at_ = std::min(refuse_at_, now + 2 * timing_.grace); }
  void stop_refusing() { refuse_at_ = kNever; }
  bool must_refuse(double now) const { return now >= refuse_at_; }

  /// Returns whether to give up, whatever is waited for.
  bool is_over(double now) const { return now >= limit_; }
  /// Returns when the next of these times comes. `waits`: whether the end of the wait would change anything.
  double next_tick(bool waits) const { return std::min({waits ? wait_until_ : kNever, refuse_at_, limit_}); }

 private:
  void extend_limit(double now, double seconds) {
    limit_ = std::min(last_limit_, std::max(limit_, now + seconds + 6 * timing_.grace));
  }

  AgreementTiming timing_;
  double join_deadline_ = 0;
  double limit_ = 0;       // when to give up
  double last_limit_ = 0;  // what limit_ may grow to
  double wait_until_ = 0;
  double refuse_at_ = kNever;
};

}  // namespace tutti
