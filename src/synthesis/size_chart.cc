#include "synthesis/size_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "documents/xml_text.hpp"

namespace tutti {

namespace {

constexpr double kWidth = 760, kHeight = 380, kLeft = 70, kRight = 190, kTop = 12, kBottom = 40;

/// Places numbers on a logarithmic axis.
struct Axis {
  double least = std::numeric_limits<double>::infinity(), most = 0, from = 0, to = 1;

  void include(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  double at(double value) const {
    const double span = std::log(most) - std::log(least);
    return from + (span > 0 ? (std::log(value) - std::log(least)) / span : 0.5) * (to - from);
  }
};

std::string time_text(double microseconds) {
  if (microseconds < 1000) return fmt::format("{:.3g} us", microseconds);
  if (microseconds < 1e6) return fmt::format("{:.3g} ms", microseconds / 1e3);
  return fmt::format("{:.3g} s", microseconds / 1e6);
}

std::string grid(const Axis& x, const Axis& y) {
  std::string out;
  for (double time = std::pow(10, std::ceil(std::log10(y.least))); time <= y.most * 1.001; time *= 10)
    out += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>\n",
        kLeft, kWidth - kRight, y.at(time), y.at(time), kLeft - 6, y.at(time) + 4, time_text(time));
  for (double bytes = x.least; bytes <= x.most * 1.001; bytes *= 16)
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
        "text-anchor=\"middle\">{4}</text>\n",
        x.at(bytes), kTop, kHeight - kBottom, kHeight - kBottom + 16, size_text(bytes));
  return out;
}

}  // namespace

std::string size_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string size_chart(const std::vector<ChartLine>& lines) {
  Axis x{.from = kLeft, .to = kWidth - kRight}, y{.from = kHeight - kBottom, .to = kTop};
  for (const ChartLine& line : lines)
    for (const auto& [bytes, microseconds] : line.points) x.include(bytes), y.include(microseconds);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"11\"><style>.grid{{stroke:#e5e7eb}} text{{fill:#374151}}</style>\n",
      kWidth, kHeight);
  if (y.most > 0) out += grid(x, y);
  double label = kTop + 12;
  for (const ChartLine& line : lines) {
    if (line.points.empty()) continue;
    std::string points, dots;
    for (const auto& [bytes, microseconds] : line.points) {
      points += fmt::format("{:.1f},{:.1f} ", x.at(bytes), y.at(microseconds));
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"><title>{}: {}, {}</title></circle>\n", x.at(bytes),
          y.at(microseconds), line.colour, escape_xml(line.name), size_text(bytes), time_text(microseconds));
    }
    const char* const dash = line.dashed ? " stroke-dasharray=\"5 4\"" : "";
    out += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{}/>\n{}", points,
                       line.colour, dash, dots);
    out += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\" stroke=\"{3}\" stroke-width=\"2\"{4}/><text x=\"{5}\" "
        "y=\"{6}\">{7}</text>\n",
        kWidth - kRight + 14, kWidth - kRight + 40, label - 4, line.colour, dash, kWidth - kRight + 46, label,
        escape_xml(line.name));
    label += 17;
  }
  return out + "</svg>\n";
}

}  // namespace tutti
