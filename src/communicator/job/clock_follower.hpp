// Keeps the recording's estimate of how far the clock of the job's first process is ahead of ours, so that all ranks of
// a job can be drawn on one axis: asks that process a few times when the job begins, and once at every pulse of Control
// from then on, to follow drift. Nothing waits for it; where no answer comes, the offset stays unknown.
// Runs on the control thread. Once it is destroyed no handler of its runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "monitor/clock_offset.hpp"

namespace tutti {

class Control;

class ClockFollower {
 public:
  /// `self`: index of this process in the job.
  ClockFollower(Control& control, int self);
  ~ClockFollower();
  ClockFollower(const ClockFollower&) = delete;
  ClockFollower& operator=(const ClockFollower&) = delete;

  /// For jobs of which all processes have one clock.
  static void is_own();

 private:
  void ask();
  void answer(int from, std::span<const std::byte> question);
  void learn(std::span<const std::byte> answer);

  Control& control_;
  const std::string clock_;  // names this host's
  monitor::ClockOffset offset_;
  int answers_ = 0;
  bool same_clock_ = false;
  std::uint64_t pulses_ = 0;  // a subscription
};

}  // namespace tutti
