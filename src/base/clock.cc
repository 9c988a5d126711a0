#include "base/clock.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

double calibrate() {
  using Clock = std::chrono::steady_clock;
  const auto start_time = Clock::now();
  const auto start_ticks = ticks();
  while (Clock::now() - start_time < std::chrono::milliseconds(2)) {
  }
  const auto end_ticks = ticks();
  const std::chrono::duration<double, std::micro> elapsed = Clock::now() - start_time;
  return static_cast<double>(end_ticks - start_ticks) / elapsed.count();
}

}  // namespace

double ticks_per_microsecond() {
  static const double rate = calibrate();
  return rate;
}

Deadline Deadline::in(double seconds) {
  Deadline deadline;
  if (std::isfinite(seconds) && seconds < 1e9)
    deadline.at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  return deadline;
}

double Deadline::seconds_left() const {
  if (is_never()) return std::numeric_limits<double>::infinity();
  return std::max(0.0, std::chrono::duration<double>(at_ - Clock::now()).count());
}

int Deadline::poll_milliseconds(int limit) const {
  if (is_never()) return limit;
  return static_cast<int>(std::min<double>(limit, std::ceil(seconds_left() * 1000)));
}

}  // namespace tutti
