// What becomes of one of the lanes between two processes, at one end: taken into use, suspected, given up, left alone
// for a while, tried again. Pure: it is told what happened and when (seconds, on any clock), and asked what to do.
//
//   probing ──up──▶ healthy ◀──heard── suspect
//      ▲               │  └──silence──▶ │
//      │               └─── lost ◀──────┘
//      │                     ▼
//   held down ◀─fenced─── dead
//
// A lane is lost by an error of its socket, by its port's carrier, by silence: what was sent on it went unanswered, or
// because it corrupts what it carries again and again, while another lane does not.
// It then stays down for a time that doubles while the lane does not last, and is tried again for ever. While no other
// lane carries anything there is no such hold: it is tried at once, then after pauses that grow. Only the end that
// dials tries; the other one is told.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "base/backoff.hpp"

namespace tutti {

struct LaneTimes {
  double suspect = 0.06;       // seconds of silence until nothing new is sent on it, where there are others
  double dead_shut = 0.13;     // seconds of silence until it is given up where another is healthy and the way is shut
  double dead = 0.3;           // the same where nothing is known of the way, or there is no other lane
  double dead_open = 0.9;      // the same where the way is open: packets may have been lost, and are sent again
  double first_hold = 0.1;     // seconds for which a lane that was lost is left alone
  double longest_hold = 5.0;   // what that doubles to
  double lasting = 2.0;        // seconds in use, and four times the last hold, after which a loss is a first one again
  double first_pause = 0.005;  // seconds between attempts that fail
  double longest_pause = 0.2;
  double first_urgent = 0.01;  // seconds after the loss of the only lane that did not last; 0 after one that did
  double longest_urgent = 0.1;
  double probe = 0.5;        // seconds without a word until a lane is probed, where something is awaited from the peer
  double corrupting = 10.0;  // seconds in which it may corrupt so many chunks, where there are others:
  int corruptions = 2;
};

inline constexpr double kNever = std::numeric_limits<double>::infinity();

enum class LaneState : std::uint8_t { probing, healthy, suspect, dead, held_down };
const char* name_of(LaneState state);

/// What a lane knows of its other end.
struct Silence {
  enum class Way : std::uint8_t { unknown, open, shut };

  double seconds = 0;      // for which what was sent has not been answered; 0: nothing waits for that
  Way way = Way::unknown;  // whether the host over there answers what is asked beside the lane
};

class LaneSlot {
 public:
  /// `dials`: this end tries to bring it up.
  LaneSlot(const LaneTimes& times, bool dials, double now);

  LaneState state() const { return state_; }
  bool in_use() const { return state_ == LaneState::healthy || state_ == LaneState::suspect; }
  double since() const { return since_; }
  /// Since when it is not in use.
  double down_since() const { return down_since_; }
  /// Why it was lost last, or could not be brought up.
  const std::string& reason() const { return reason_; }
  bool was_up() const { return was_up_; }

  /// An incarnation that is over, or older than one that is, must not be taken into use.
  bool may_come_up(std::uint32_t epoch) const { return epoch > over_; }
  void up(double now, std::uint32_t epoch);
  void lost(double now, std::string why);
  /// The peer has lost this incarnation, which we may not have seen yet.
  void end(std::uint32_t epoch);
  /// Nothing that was sent on it can arrive any more, and all that had is known.
  void fenced(double now);
  /// What was sent has gone unanswered. True: give it up. `others`: there is a healthy lane to go to.
  bool silent(const Silence& silence, bool others);
  /// A chunk came corrupted. True: give it up. `others`: as with silent().
  bool corrupted(double now, bool others);

  /// When dial() is due; kNever while it is not on us, or under way. `alone`: no other lane carries anything.
  double due(bool alone) const;
  /// An attempt begins: the incarnation it is to be.
  std::uint32_t dial(double now);
  void failed(double now, std::string why, bool absent);
  /// Attempts in a row to which the answer was that the peer is not there, and since when.
  int absences() const { return absences_; }
  double absent_since() const { return absent_since_; }
  /// Its port has a carrier again: no need to wait longer than the hold.
  void port_back(double now);

 private:
  void change(LaneState state, double now);

  const LaneTimes* times_;
  bool dials_;
  LaneState state_ = LaneState::held_down;
  double since_;
  double down_since_;
  std::string reason_;
  bool was_up_ = false;
  std::uint32_t epoch_ = 0;  // of the incarnation in use, or tried last
  std::uint32_t over_ = 0;   // this one and all before are over
  Backoff hold_;
  double held_until_;
  Backoff pause_;         // after an attempt that fails
  Backoff urgent_pause_;  // before the next attempt where it is alone and did not last
  double urgent_at_;      // when it is tried again where it is alone
  double retry_at_;       // and where it is not
  int absences_ = 0;
  double absent_since_ = 0;
  int corruptions_ = 0;  // since the time that follows
  double corrupted_since_ = 0;
};

}  // namespace tutti
