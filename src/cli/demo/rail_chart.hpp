// Bandwidth over time as a picture of text: a column for each slice of time, the rails' shares on top of each other.
// Pure: it is told rates, and says what lines to print. One thread.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cli/demo/rails.hpp"

namespace tutti::cli {

using RailRates = std::array<double, kRails>;  // Gb/s

class RailChart {
 public:
  static constexpr int kColumns = 60;
  static constexpr int kRows = 8;

  RailChart(double seconds, bool color) : seconds_(seconds), color_(color) {}

  void add(const RailRates& rates) { rates_.push_back(rates); }
  /// Under the column that comes next.
  void mark(const std::string& text) { marks_.push_back({rates_.size(), text}); }

  /// As many each time; none is wider than 76 columns.
  std::vector<std::string> lines() const;

 private:
  struct ChartMark {
    std::size_t column;
    std::string text;
  };

  double top() const;
  std::string cell(const RailRates& rates, double from, double height) const;
  std::string axis() const;
  std::string marks() const;
  std::string legend() const;

  double seconds_;
  bool color_;
  std::vector<RailRates> rates_;
  std::vector<ChartMark> marks_;
};

}  // namespace tutti::cli
