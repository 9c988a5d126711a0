// `tutti top` as lines of text, from two looks at the same recordings. Pure.
#pragma once

#include <string>
#include <vector>

#include "monitor/read/snapshot.hpp"

namespace tutti::cli {

enum class TopOrder { rank, operations, bytes, waiting };

struct TopStyle {
  TopOrder order = TopOrder::rank;
  bool color = false;
};

struct TopFrame {
  std::vector<std::string> head;  // stays where it is
  std::vector<std::string> body;  // scrolls
};

/// `before`: an earlier look, for what happened since; `now`: with operations and chunks.
TopFrame top_frame(const monitor::Snapshot& before, const monitor::Snapshot& now, const TopStyle& style);

/// Rates as a row of bars, the newest at the right, from nothing to the highest, or to twice the median.
std::string sparkline(const std::vector<double>& values, std::size_t columns);

}  // namespace tutti::cli
