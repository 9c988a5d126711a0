#include "simulation/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "documents/xml_text.hpp"

namespace tutti {
namespace {

constexpr int kMostRanks = 64;
constexpr std::size_t kMostBars = 20'000;
constexpr int kMostLanes = 12;  // of a row; what finds no free one is drawn over others

// Pixels.
constexpr double kLeft = 120;
constexpr double kPlot = 1080;
constexpr double kTop = 92;
constexpr double kLane = 8;
constexpr double kRowGap = 6;

constexpr std::array<const char*, 6> kColours = {"#16a34a", "#2563eb", "#b45309", "#7c3aed", "#0f766e", "#be123c"};

struct FlightBar {
  const Flight* flight;
  int lane = 0;
};

/// 1, 2 or 5 times a power of ten, so that about eight ticks fit.
double tick_of(double whole) {
  const double rough = whole / 8;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

class Timeline {
 public:
  Timeline(const Simulation& simulation, Routes& routes, const std::string& title)
      : simulation_(simulation), routes_(routes), title_(title) {
    shown_ranks_ = std::min(routes.topology().ranks(), kMostRanks);
    rows_.resize(static_cast<std::size_t>(shown_ranks_));
    whole_ = simulation.seconds > 0 ? simulation.seconds : 1;
    place_bars();
    double y = kTop;
    for (const auto& row : rows_) {
      row_top_.push_back(y);
      y += kLane * std::max(lanes_of(row), 2) + kRowGap;
    }
    bottom_ = y;
  }

  std::string draw() {
    const double width = kLeft + kPlot + 24, height = bottom_ + 62;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" font-family=\"system-ui, sans-serif\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "fill=\"#ffffff\"/>\n",
        width, height);
    draw_title();
    for (int rank = 0; rank < shown_ranks_; ++rank) draw_row(rank);
    draw_axis();
    for (int rank = 0; rank < shown_ranks_; ++rank)
      for (const FlightBar& bar : rows_[static_cast<std::size_t>(rank)]) draw_bar(rank, bar);
    draw_legend();
    return out_ + "</svg>\n";
  }

 private:
  static int lanes_of(const std::vector<FlightBar>& row) {
    int lanes = 0;
    for (const FlightBar& bar : row) lanes = std::max(lanes, bar.lane + 1);
    return lanes;
  }

  /// Each flight into the first lane of its sender that is free when it begins.
  void place_bars() {
    std::vector<std::vector<double>> free(rows_.size());
    for (const Flight& flight : simulation_.flights) {
      if (flight.from >= shown_ranks_) continue;
      if (bars_++ >= kMostBars) continue;
      auto& lanes = free[static_cast<std::size_t>(flight.from)];
      const double slack = whole_ * 1e-9;
      auto lane = std::find_if(lanes.begin(), lanes.end(), [&](double end) { return end <= flight.begins + slack; });
      if (lane == lanes.end() && lanes.size() < kMostLanes) lane = lanes.insert(lanes.end(), 0);
      if (lane == lanes.end()) lane = std::min_element(lanes.begin(), lanes.end());
      *lane = flight.ends;
      rows_[static_cast<std::size_t>(flight.from)].push_back({&flight, static_cast<int>(lane - lanes.begin())});
    }
  }

  double x_of(double seconds) const { return kLeft + kPlot * seconds / whole_; }

  void draw_title() {
    std::string what = fmt::format("{:.2f} us, {} piece{}", simulation_.seconds * 1e6, simulation_.pieces,
                                   simulation_.pieces == 1 ? "" : "s");
    if (const int ranks = routes_.topology().ranks(); shown_ranks_ < ranks)
      what += fmt::format("; the first {} of {} ranks shown", shown_ranks_, ranks);
    if (bars_ > kMostBars) what += fmt::format("; the first {} of their {} pieces shown", kMostBars, bars_);
    out_ += fmt::format(
        "<text x=\"20\" y=\"34\" font-size=\"18\" font-weight=\"600\" fill=\"#1f2a37\">{}</text>\n"
        "<text x=\"20\" y=\"56\" font-size=\"12.5\" fill=\"#64748b\">{}</text>\n",
        escape_xml(title_), escape_xml(what));
  }

  void draw_row(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    const double top = row_top_[index];
    const double height = (index + 1 < row_top_.size() ? row_top_[index + 1] : bottom_) - top - kRowGap;
    const Vertex& gpu = routes_.topology().vertex(routes_.topology().gpu(rank));
    out_ += fmt::format(
        "<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\" rx=\"3\" fill=\"{}\"/>\n"
        "<text x=\"{}\" y=\"{:.1f}\" font-size=\"11\" fill=\"#334155\" text-anchor=\"end\">{}: {}</text>\n",
        kLeft, top, kPlot, height, gpu.node % 2 == 0 ? "#f1f4f8" : "#e8edf3", kLeft - 10, top + height / 2 + 4, rank,
        escape_xml(gpu.name));
  }

  void draw_axis() {
    const double tick = tick_of(whole_ * 1e6);
    for (double at = 0; at <= whole_ * 1e6 * (1 + 1e-9); at += tick) {
      const double x = x_of(at / 1e6);
      out_ += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#cbd5e1\" stroke-width=\"1\"/>\n"
          "<text x=\"{0:.1f}\" y=\"{3}\" font-size=\"10.5\" fill=\"#64748b\" text-anchor=\"middle\">{4:g} us</text>\n",
          x, kTop - 6, bottom_, kTop - 12, at);
    }
  }

  /// The name of the slowest link on the way of a flight.
  const std::string& slowest(const Flight& flight) {
    std::string& name = slowest_[{flight.from, flight.to, flight.channel}];
    if (!name.empty()) return name;
    const Link* found = nullptr;
    for (const int index : routes_.links(flight.from, flight.to, flight.channel)) {
      const Link& link = routes_.topology().link(index);
      if (found == nullptr || link.capacity < found->capacity) found = &link;
    }
    return name = found == nullptr || found->name.empty() ? "link" : found->name;
  }

  const char* colour_of(const std::string& link) {
    const auto added = colours_.try_emplace(link, kColours[colours_.size() % kColours.size()]);
    return added.first->second;
  }

  void draw_bar(int rank, const FlightBar& bar) {
    const Flight& flight = *bar.flight;
    const double left = x_of(flight.begins);
    out_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" rx=\"1.5\" fill=\"{}\" fill-opacity=\"0.8\">"
        "<title>{} to {}, channel {}: worker {} step {} tile {}, {:.2f} to {:.2f} us</title></rect>\n",
        left, row_top_[static_cast<std::size_t>(rank)] + kLane * bar.lane + 1,
        std::max(x_of(flight.ends) - left - 0.4, 0.6), kLane - 2, colour_of(slowest(flight)), flight.from, flight.to,
        flight.channel, flight.worker, flight.step, flight.tile, flight.begins * 1e6, flight.ends * 1e6);
  }

  void draw_legend() {
    double x = 20;
    for (const auto& [name, colour] : colours_) {
      out_ += fmt::format(
          "<rect x=\"{0}\" y=\"{1:.1f}\" width=\"22\" height=\"10\" rx=\"2\" fill=\"{2}\"/>"
          "<text x=\"{3}\" y=\"{4:.1f}\" font-size=\"11\" fill=\"#475569\">{5}</text>\n",
          x, bottom_ + 12, colour, x + 28, bottom_ + 21, escape_xml(name));
      x += 28 + static_cast<double>(name.size()) * 7 + 18;
    }
    out_ += fmt::format(
        "<text x=\"20\" y=\"{:.1f}\" font-size=\"11\" fill=\"#64748b\">a row for each rank, a bar for each piece it "
        "sends, from its first byte sent to its last byte arrived; the colour is that of the slowest link on its "
        "way</text>\n",
        bottom_ + 44);
  }

  const Simulation& simulation_;
  Routes& routes_;
  const std::string& title_;
  int shown_ranks_ = 0;
  double whole_ = 1;  // seconds
  std::vector<std::vector<FlightBar>> rows_;
  std::vector<double> row_top_;
  double bottom_ = 0;
  std::size_t bars_ = 0;
  std::map<std::tuple<int, int, int>, std::string> slowest_;
  std::map<std::string, const char*> colours_;
  std::string out_;
};

}  // namespace

std::string timeline_svg(const Simulation& simulation, Routes& routes, const std::string& title) {
  return Timeline(simulation, routes, title).draw();
}

}  // namespace tutti
