// Middles and spreads that a few wild values do not move. Pure functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tutti::diagnosis {

/// The value below which a share of the others lies; 0 where there are none. Reorders the values.
inline double quantile_of(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// The lower of the two middle ones where the count is even. Reorders the values.
inline double median_of(std::vector<double>& values) { return quantile_of(values, 0.5); }

/// The upper of the two middle ones where the count is even. Reorders the values.
inline double upper_median_of(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

struct Center {
  double median = 0;
  double spread = 0;  // as a standard deviation
};

/// Median, and median deviation from it scaled to a standard deviation. Changes the values.
inline Center center_of(std::vector<double>& values) {
  constexpr double kOfNormal = 1.4826;
  Center center;
  center.median = median_of(values);
  for (double& value : values) value = std::abs(value - center.median);
  center.spread = kOfNormal * median_of(values);
  return center;
}

}  // namespace tutti::diagnosis
