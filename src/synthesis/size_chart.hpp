// Times by size as lines on logarithmic axes (SVG). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

struct ChartLine {
  std::string name;
  std::string colour;
  bool dashed = false;
  std::vector<std::pair<double, double>> points;  // bytes, microseconds; ascending
};

/// "64 KB": powers of 1024, three digits.
std::string size_text(double bytes);

std::string size_chart(const std::vector<ChartLine>& lines);

}  // namespace tutti
