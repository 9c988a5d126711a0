// Attempts to connect to one process, round after round: over all its addresses in turn, then by detours. One begins
// shortly after the other, whether that is over or not: a network that heals lets a new one through at once, while the
// kernel sends what it lost again after pauses that double.
//
// The owner calls attempt() when it is time (next_at()), and hands over what becomes of each attempt. Attempts that are
// under way at the end are closed. One thread, that of the event loop.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/backoff.hpp"
#include "control/control_connections.hpp"
#include "control/greeting.hpp"
#include "control/world/peer_addresses.hpp"
#include "net/address_book.hpp"
#include "net/route.hpp"

namespace tutti {

class PeerDial {
 public:
  using Id = ControlConnections::Id;
  struct Target {
    int process;
    Greeting greeting;
    const PeerAddresses& addresses;
    const std::vector<int>& hearers;  // processes that hear it, which can relay
    double heartbeat_timeout;
  };
  /// What is known when an attempt begins.
  struct Situation {
    bool known;        // there was a connection once
    bool watched;      // its end would be seen, so that it may be stopped for long
    bool has_detours;  // others can relay. While a world comes together, whoever does not answer is more likely slow
  };
  struct DialStep {
    Route route;
    std::optional<std::size_t> address;  // of the peer; none: a detour, of which only success tells anything
  };
  struct Failure {
    DialStep step;
    Error error;
  };

  /// Returns the seconds that a process of this host has to answer while a world comes together. One that lives is only
  /// slow then, and further attempts would make all of them slower.
  static double slow_start(double heartbeat_timeout) { return 1.5 * heartbeat_timeout; }

  /// The first attempt is due after `delay` seconds.
  PeerDial(ControlConnections& connections, const AddressBook& book, const Target& target, const Situation& situation,
           double now, double delay);
  ~PeerDial() { close(); }
  PeerDial(const PeerDial&) = delete;
  PeerDial& operator=(const PeerDial&) = delete;

  /// Begins the next attempt. Returns why it failed, if it did at once.
  std::optional<Failure> attempt(const Situation& situation, double now);
  /// Takes an attempt out of those that are under way. Returns its step; none: it is not one of them.
  std::optional<DialStep> take(Id id);
  /// Notes how an attempt at an address ended. Returns whether it shows that nobody listens where the process did: at
  /// an address that is surely its own, or at all of them. One that was not proven may mean another host to this one;
  /// that all of them do is not likely.
  bool note_ending(std::size_t address, bool nobody_listens);

  /// Returns whether no attempt is under way.
  bool is_idle() const { return attempts_.empty(); }
  /// Returns whether the process's host has answered an attempt, whatever the process does.
  bool host_answers() const;
  double began() const { return began_; }
  /// Returns when the next attempt is due.
  double next_at() const { return next_at_; }
  /// Has the next attempt begin at `time` if it would begin later.
  void hasten(double time);
  /// Begins no further attempt; those under way go on.
  void hold();
  /// An attempt failed: if no other is under way, the next need not wait for it.
  void go_on();
  /// Ends all attempts with last words, for a peer that may count one of them as open.
  void hang_up(const std::vector<std::byte>& last_words, double seconds);
  void close();

 private:
  struct DialAttempt {
    Id id;
    DialStep step;
  };

  void begin_round(const Situation& situation);
  void plan_next(const DialStep& last, const Situation& situation, double now);
  bool is_first_contact(const Situation& situation) const { return !situation.known && round_.size() == 1; }
  /// Its end would be seen, and it has not ended: it starts slowly, as many processes on few cores do.
  static bool is_slow_start(const Situation& s) { return s.watched && !s.known && !s.has_detours; }
  Connector::DialTimes patience(const Situation& situation) const;
  double stagger(const DialStep& step, const Situation& situation) const;

  ControlConnections& connections_;
  const AddressBook& book_;
  const Target target_;
  std::vector<DialAttempt> attempts_;  // under way, oldest first
  std::vector<DialStep> round_;
  std::size_t step_ = 0;       // of the round, that is next
  std::vector<bool> refused_;  // addresses at which nobody listens
  int rounds_ = 0;             // that are over
  std::size_t detours_ = 0;    // that they tried
  const double began_;
  double next_at_;
  double not_before_ = 0;  // the same if all that are under way fail
  Backoff pause_;          // after a round
};

}  // namespace tutti
