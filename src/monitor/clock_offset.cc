#include "monitor/clock_offset.hpp"

#include <cmath>

namespace tutti::monitor {

void ClockOffset::take(const ClockSample& sample) {
  const std::int64_t round_trip = (sample.back - sample.sent) - (sample.told - sample.heard);
  if (sample.back < sample.sent || sample.told < sample.heard || round_trip < 0) return;
  const auto error = static_cast<std::uint64_t>(round_trip / 2 + 1);
  if (known_ && error > error_at(sample.back)) return;
  known_ = true;
  // Not the mean of the sums: stamps of two hosts may be far apart, and their differences are what is small.
  const std::int64_t out = sample.heard - sample.sent;
  offset_ = out - round_trip / 2;
  error_ = error;
  taken_ = sample.back;
}

std::uint64_t ClockOffset::error_at(std::int64_t now) const {
  const double age = std::abs(static_cast<double>(now - taken_));
  return error_ + static_cast<std::uint64_t>(age * kDrift);
}

}  // namespace tutti::monitor
