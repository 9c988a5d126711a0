#include "measure/fit.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

/// A message of which bandwidth is so many times its latency tells of bandwidth.
constexpr double kMostlyBandwidth = 3;

/// slope and its standard error of seconds over bytes, each point weighted by 1 / seconds^2.
struct Slope {
  double value = 0;
  double error = 0;
};

Slope slope_of(std::span<const SizeTime> times) {
  double weights = 0, mean_bytes = 0, mean_seconds = 0;
  const auto weight_of = [](const SizeTime& time) { return 1 / (time.seconds * time.seconds); };
  for (const SizeTime& time : times) {
    const double weight = weight_of(time);
    weights += weight;
    mean_bytes += weight * static_cast<double>(time.bytes);
    mean_seconds += weight * time.seconds;
  }
  mean_bytes /= weights;
  mean_seconds /= weights;
  double spread = 0, together = 0;
  for (const SizeTime& time : times) {
    const double bytes = static_cast<double>(time.bytes) - mean_bytes;
    spread += weight_of(time) * bytes * bytes;
    together += weight_of(time) * bytes * (time.seconds - mean_seconds);
  }
  Slope slope{together / spread, 0};
  if (times.size() < 3) return slope;
  double left = 0;
  for (const SizeTime& time : times) {
    const double line = mean_seconds + slope.value * (static_cast<double>(time.bytes) - mean_bytes);
    left += weight_of(time) * (time.seconds - line) * (time.seconds - line);
  }
  slope.error = std::sqrt(left / (static_cast<double>(times.size()) - 2) / spread);
  return slope;
}

/// The large sizes, in which bandwidth is most of the time: at least the two largest.
std::span<const SizeTime> bandwidth_part(std::span<const SizeTime> times) {
  std::size_t first = 0;
  while (first + 2 < times.size() && times[first].seconds < kMostlyBandwidth * times.front().seconds) ++first;
  return times.subspan(first);
}

}  // namespace

LineFit fit_line(std::span<const SizeTime> times) {
  LineFit fit;
  if (times.empty()) return fit;
  fit.latency = times.front().seconds;
  const SizeTime& largest = times.back();
  const double overall = static_cast<double>(largest.bytes) / largest.seconds;
  const Slope slope = times.size() < 2 ? Slope{} : slope_of(bandwidth_part(times));
  // Noise can turn the line of two sizes round; the largest message is then all that is known.
  fit.rate = slope.value > 0 ? 1 / slope.value : overall;
  fit.rate_error = slope.value > 0 ? slope.error / slope.value : 0;
  double squares = 0;
  for (const SizeTime& time : times) {
    const double off = (fit.latency + static_cast<double>(time.bytes) / fit.rate) / time.seconds - 1;
    squares += off * off;
  }
  fit.error = std::sqrt(squares / static_cast<double>(times.size()));
  return fit;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tutti
