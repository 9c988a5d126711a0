#include "cli/demo/flight_chart.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/support/terminal.hpp"

namespace tutti::cli {

namespace {

constexpr int kColumns = 60;

enum class Load { nothing, near, far };

struct ChartRow {
  std::vector<Load> cells = std::vector<Load>(kColumns, Load::nothing);
};

std::string drawn(const ChartRow& row, bool color) {
  std::string line;
  for (const Load load : row.cells) {
    if (load == Load::nothing) line += "·";
    if (load == Load::near) line += paint("▒", Color::cyan, color);
    if (load == Load::far) line += paint("█", Color::yellow, color);
  }
  return line;
}

}  // namespace

std::vector<std::string> flight_chart(const Simulation& simulation, const Topology& topology, bool color) {
  std::vector<ChartRow> rows(static_cast<std::size_t>(topology.ranks()));
  const auto column = [&](double time) {
    return std::clamp(static_cast<int>(time / simulation.seconds * kColumns), 0, kColumns - 1);
  };
  const auto node_of = [&](int rank) { return topology.vertex(topology.gpu(rank)).node; };
  for (const Flight& flight : simulation.flights) {
    const Load load = node_of(flight.from) == node_of(flight.to) ? Load::near : Load::far;
    auto& cells = rows[static_cast<std::size_t>(flight.from)].cells;
    for (int at = column(flight.begins); at <= column(flight.ends); ++at)
      cells[static_cast<std::size_t>(at)] = std::max(cells[static_cast<std::size_t>(at)], load);
  }
  std::vector<std::string> lines;
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    lines.push_back(fmt::format("  rank {:>2}  {}", rank, drawn(rows[rank], color)));
  lines.push_back(fmt::format("           0{:>{}} us", fmt::format("{:.1f}", simulation.seconds * 1e6), kColumns - 4));
  lines.push_back(fmt::format("           {} sends within its node   {} to the other   · waits",
                              paint("▒", Color::cyan, color), paint("█", Color::yellow, color)));
  return lines;
}

}  // namespace tutti::cli
