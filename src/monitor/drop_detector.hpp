// Learns what a byte usually costs on a lane, and finds drops: when the lane became slower than usual, when it
// recovered, and what the time was lost to.
//
// A window over the last samples is compared with the usual cost, which is learned from windows that are not slow.
// Windows only find a drop; its beginning, end and depth are taken from a fit of two levels to the samples themselves
// (step_fit.hpp). The last 512 samples are kept for that; of a longer drop the beginning stays as it was found.
//
// Pure: times (seconds) are passed in. O(1) per sample but for the fits; no allocation after construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "monitor/lane_sample.hpp"
#include "monitor/usual_cost.hpp"

namespace tutti::monitor {

/// Times are seconds, rates are bytes per second.
struct Drop {
  double began = 0;
  double until = 0;  // its end, or until when it is known
  double usual = 0;
  double rate = 0;
  Shares shares;
};

class DropDetector {
 public:
  /// `window`: completions that are judged together, if more than 8. `new_usual`: seconds after which a drop is what is
  /// usual.
  DropDetector(int window, double new_usual);

  void add(const LaneSample& sample);
  /// Returns whether there are enough samples for the calls below. Stays true.
  bool is_ready() const { return judged_.chunks >= judged_chunks_ && count_ - judged_from_ >= kLeastTimes; }
  /// Not in a drop, or `is_stalled`: returns the drop that has begun, if any. A stalled lane always has one, as soon as
  /// the usual cost is known. `gap`: seconds that are a drop if a single sample takes them.
  std::optional<Drop> find_drop(double now, double gap, bool is_stalled);
  /// In a drop: returns it if it is over, because the lane is fast again or because it has become usual.
  std::optional<Drop> find_end(double now);
  /// Learns from the window; only called while there is no drop. Returns whether that changed what is known.
  bool learn();

  const UsualCost& usual() const { return usual_; }
  /// Returns the usual bytes per second, or 0 if not known.
  double usual_rate() const { return usual_.is_known() ? 1 / usual_.cost().total() : 0; }
  /// Returns whether chunks of the window, and those of `next`, take longer than they should.
  bool is_busier_with(const LaneSample& next) const;

 private:
  static constexpr std::uint64_t kKept = 512;
  static constexpr std::uint64_t kLeastTimes = 3;  // at which completions of a window came

  const LaneSample& sample(std::uint64_t number) const { return (*samples_)[number % kKept]; }
  bool is_slow(double gap);
  LaneSample sum(std::uint64_t first, std::uint64_t last) const;
  std::uint64_t step_between(std::uint64_t first, std::uint64_t last, bool rises) const;
  void place_beginning(std::uint64_t first, std::uint64_t last);
  Drop end_drop(double now, bool is_usual);
  Drop drop_of(const LaneSample& sum, double until) const;

  double new_usual_;
  std::unique_ptr<std::array<LaneSample, kKept>> samples_;
  std::uint64_t count_ = 0;        // of all samples so far
  std::uint64_t judged_from_ = 0;  // first sample of the window
  LaneSample judged_;              // its sum
  double judged_chunks_;           // that it has at least
  UsualCost usual_;
  std::uint64_t learned_ = 0;      // count_ when a window was last learned from
  std::uint64_t steady_from_ = 0;  // samples from here on are not of a drop that is over
  int slow_in_a_row_ = 0;          // windows

  bool in_drop_ = false;
  std::uint64_t found_at_ = 0;   // count_ when the drop was found
  std::uint64_t fast_from_ = 0;  // samples since then are of windows that are not slow
  std::uint64_t began_ = 0;      // first sample of the drop
  double began_at_ = 0;
  LaneSample dropped_;  // sum since began_
};

}  // namespace tutti::monitor
