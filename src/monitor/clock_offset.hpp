// How far another host's clock is ahead of ours, from exchanges of a question and an answer with four stamps, as NTP
// does it. The truth lies within half the round trip of what one exchange says, however the two ways differ, so the
// exchange of the least round trip is believed; for as long as it may be: clocks drift, and what an exchange said grows
// stale. A value; one thread.
#pragma once

#include <cstdint>

namespace tutti::monitor {

/// Nanoseconds: when the question was sent and its answer came back, on our clock; when it was heard and the answer
/// told, on theirs.
struct ClockSample {
  std::int64_t sent = 0;
  std::int64_t heard = 0;
  std::int64_t told = 0;
  std::int64_t back = 0;
};

class ClockOffset {
 public:
  /// By how much two clocks may go apart: two quartzes of 25 ppm each.
  static constexpr double kDrift = 50e-6;

  /// Believes the sample if it is better than what the one before it still is. One that contradicts itself, such as an
  /// answer that took longer than the round trip, is dropped.
  void take(const ClockSample& sample);

  bool known() const { return known_; }
  /// To be added to our clock to have theirs.
  std::int64_t offset() const { return offset_; }
  /// How wrong that may be at `now`, on our clock.
  std::uint64_t error_at(std::int64_t now) const;

 private:
  bool known_ = false;
  std::int64_t offset_ = 0;
  std::uint64_t error_ = 0;
  std::int64_t taken_ = 0;
};

}  // namespace tutti::monitor
