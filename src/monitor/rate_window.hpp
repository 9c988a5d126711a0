// Throughput over the last completions of a lane: bytes per second of the time in which the lane had work. O(1) per
// chunk, no allocation. Pure.
#pragma once

#include <array>
#include <cstdint>

#include "monitor/step_fit.hpp"

namespace tutti::monitor {

class RateWindow {
 public:
  static constexpr int kLongest = 128;  // completions

  /// `window`: completions, from 1 to kLongest.
  explicit RateWindow(int window) : window_(static_cast<std::uint64_t>(window)) {}

  void add(const Piece& piece) {
    Piece& oldest = pieces_[count_++ % window_];
    sum_.bytes += piece.bytes - oldest.bytes;
    sum_.seconds += piece.seconds - oldest.seconds;
    oldest = piece;
  }
  /// Returns bytes per second, or 0 if nothing is known.
  double rate() const { return sum_.seconds > 0 ? sum_.bytes / sum_.seconds : 0; }
  /// Returns how many pieces were added so far.
  std::uint64_t count() const { return count_; }

 private:
  std::uint64_t window_;
  std::array<Piece, kLongest> pieces_{};
  std::uint64_t count_ = 0;
  Piece sum_;
};

}  // namespace tutti::monitor
