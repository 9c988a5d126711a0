#include "cli/demo/rail_chart.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/support/terminal.hpp"

namespace tutti::cli {
namespace {

constexpr double kLeastTop = 2.0;  // Gb/s
constexpr Color kColors[kRails] = {Color::cyan, Color::yellow};
constexpr const char* kPlain[kRails] = {"█", "▒"};
constexpr const char* kEighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

double total(const RailRates& rates) { return rates[0] + rates[1]; }

}  // namespace

double RailChart::top() const {
  double most = kLeastTop;
  for (const RailRates& rates : rates_) most = std::max(most, total(rates));
  return most <= 1.1 * kLeastTop ? kLeastTop : std::ceil(most);
}

// What is most of the cell is shown; with colours, the top of the column to an eighth of it.
std::string RailChart::cell(const RailRates& rates, double from, double height) const {
  const double filled = std::clamp((total(rates) - from) / height, 0.0, 1.0);
  const int eighths = static_cast<int>(std::lround(filled * 8));
  const int rail = rates[0] >= from + std::min(filled, 1.0) * height / 2 ? 0 : 1;
  if (color_) return paint(kEighths[eighths], kColors[rail], eighths != 0);
  return eighths >= 4 ? kPlain[rail] : " ";
}

std::vector<std::string> RailChart::lines() const {
  const double height = top() / kRows;
  std::vector<std::string> lines = {legend()};
  for (int row = kRows - 1; row >= 0; --row) {
    const double from = row * height;
    const bool labeled = (row + 1) % (kRows / 2) == 0;
    std::string line = labeled ? fmt::format("{:>4.1f} Gb/s ┤", from + height) : "          │";
    for (const RailRates& rates : rates_) line += cell(rates, from, height);
    lines.push_back(line);
  }
  lines.push_back(axis());
  lines.push_back(marks());
  return lines;
}

std::string RailChart::axis() const {
  std::string line = "        0 └";
  for (int column = 0; column < kColumns; ++column) line += column % 10 == 9 ? "┴" : "─";
  return line + fmt::format(" {:g} s", seconds_);
}

std::string RailChart::marks() const {
  std::string line(11, ' ');
  std::size_t at = 0;
  for (const ChartMark& mark : marks_) {
    line.append(std::max(mark.column, at) - at, ' ');
    line += "↑" + mark.text;
    at = std::max(mark.column, at) + 1 + mark.text.size();
  }
  return line;
}

std::string RailChart::legend() const {
  std::string line(9, ' ');
  for (int rail = 0; rail < kRails; ++rail)
    line += fmt::format("  {} rail{}", paint(kPlain[color_ ? 0 : rail], kColors[rail], color_), rail);
  return line;
}

}  // namespace tutti::cli
