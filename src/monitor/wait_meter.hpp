// Measures for how long an operation under way waits, and for which ranks: the time in which nothing of it moves, from
// a microsecond or two on. What is neither is the time in which it moves data, so that the two add up to the time from
// entering to the end. Chunks on their way between hosts are no wait: they move, though nobody here does. What brings
// nothing for longer than chunks may take was a wait from its beginning.
//
// It writes into the operation's Active, and into the waits of its communicator, as it goes: a wait that lasts is seen
// while it lasts. By the owner of the communicator's token only. It reads the clock where a wait begins, goes on or
// ends, and never in an operation that meets no wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/clock.hpp"
#include "monitor/layout.hpp"

namespace tutti::monitor {

class WaitMeter {
 public:
  /// Sets where waits are recorded. `active` null: nowhere; `of` null: not by rank.
  void observe(Active* active, CommunicatorRecord* of) {
    active_ = active;
    of_ = of;
  }
  bool is_on() const { return active_ != nullptr; }

  /// An operation begins.
  void begin() {
    measured_to_ = 0;
    moved_ = false;
    longest_ = 0;
  }
  /// Something of the operation has moved: a wait is over.
  void note_move() {
    moved_ = true;
    if (measured_to_ == 0) [[likely]]
      return;
    charge(ticks());
    measured_to_ = 0;
  }

  /// Nothing has moved for a while, and `rank` is waited for (-1: none). `longest_transit`: ticks that chunks from or
  /// to it, which are under way, may take; 0: none are. Called again and again while that lasts. `now`: ticks, not
  /// before the last move.
  void note_wait(int rank, std::uint64_t longest_transit, std::uint64_t now) {
    const std::uint64_t entered = active_->entered.get();
    if (measured_to_ == 0) {
      // What comes first in an operation is waited for since it was entered.
      begun_ = measured_to_ = moved_ ? std::max(now, entered) : entered;
      alone_ = held_back_ = 0;
    } else {
      charge(now);
    }
    if (rank != rank_) alone_ = held_back_ = 0;
    if (longest_transit == 0) held_back_ = 0;  // what travelled has come
    rank_ = rank;
    longest_transit_ = longest_transit;
  }

 private:
  static constexpr int kTries = 8;

  /// Charges the time since it was last done to the rank that was waited for then.
  void charge(std::uint64_t now) {
    if (now <= measured_to_) return;
    held_back_ += now - measured_to_;
    measured_to_ = now;
    if (rank_ < 0 || now - begun_ < longest_transit_) return;
    const std::uint64_t lasted = std::exchange(held_back_, 0);
    active_->waited.add(lasted);
    if (of_ != nullptr) record_of(rank_).ticks.add(lasted);
    alone_ += lasted;
    if (alone_ <= longest_) return;
    longest_ = alone_;
    active_->waited_for.set(rank_);
  }

  WaitRecord& record_of(int rank) const {
    const auto name = static_cast<std::uint32_t>(rank) + 1;
    for (int i = 0; i < kTries; ++i) {
      WaitRecord& record = of_->waits[(name + static_cast<std::uint32_t>(i)) % (kWaits - 1)];
      if (record.name.get() == name) return record;
      if (record.name.get() != 0) continue;
      record.name.set(name);
      return record;
    }
    return of_->waits[kWaits - 1];
  }

  Active* active_ = nullptr;
  CommunicatorRecord* of_ = nullptr;
  std::uint64_t measured_to_ = 0;  // ticks; 0: it does not wait
  std::uint64_t begun_ = 0;        // of this wait
  std::uint64_t alone_ = 0;        // ticks in which `rank_` was waited for, without a move between
  std::uint64_t longest_ = 0;      // of these in this operation
  int rank_ = -1;
  std::uint64_t longest_transit_ = 0;
  std::uint64_t held_back_ = 0;  // ticks of this wait that may be a transit
  bool moved_ = false;           // anything, since the operation was entered
};

}  // namespace tutti::monitor
