// The scene of `tutti demo` in which one of two rails between two hosts is taken down under running all-reduces, and
// comes back: bandwidth drawn as it is, and then in numbers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/demo/rail_chart.hpp"
#include "cli/demo/rails.hpp"

namespace tutti::cli {

/// Plays it; returns the exit status. Where real rails are not to be had it says so, and plays it on simulated ones.
int play_rails(double seconds, bool simulated);

/// What was sent until a moment.
struct RailSample {
  double seconds = 0;
  std::array<std::uint64_t, kRails> bytes{};
};

/// Gb/s from one to the other.
RailRates rates_between(const RailSample& from, const RailSample& to);

/// What happened, from what was seen. `ends`: when operations were done.
struct RailStory {
  double pause = 0;    // seconds for which no operation was done when the rail went down, beyond what is usual
  double idle = 0;     // seconds from the port being up until the rail carried something again; < 0: it never did
  double before = 0;   // Gb/s
  double without = 0;  // while it was down
  double after = 0;    // once it carried again

  RailStory(std::span<const RailSample> samples, std::span<const double> ends, int rail, double down, double up);
};

}  // namespace tutti::cli
