#include "cli/monitor/top_view.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "cli/support/table.hpp"
#include "cli/support/terminal.hpp"
#include "monitor/read/cluster_report.hpp"

namespace tutti::cli {
namespace {

using namespace monitor;  // NOLINT(google-build-using-namespace): this file speaks of nothing else

constexpr std::size_t kSparkColumns = 32;

/// What a rank has done between two looks.
struct RankRate {
  const CommunicatorReport* communicator = nullptr;
  const RankReport* rank = nullptr;
  double operations = 0, bytes = 0;  // a second
  double in_operations = 0;          // share of the time
  double waiting = 0;                // likewise
  std::optional<int> mostly_for;     // the rank for which it waited longest
};

using RankKey = std::tuple<std::uint64_t, int, int>;  // communicator, rank, pid

struct Sums {
  std::uint64_t operations = 0, bytes = 0;
  double seconds = 0, waited = 0;
  std::map<int, double> waited_for = {};  // by rank
};

Sums sums_of(const RankReport& rank) {
  Sums sums{rank.operations, rank.bytes, rank.seconds, rank.waited};
  for (const WaitedView& each : rank.waited_for)
    if (each.rank >= 0) sums.waited_for[each.rank] = each.seconds;
  return sums;
}

std::map<RankKey, Sums> sums_of(const ClusterReport& report) {
  std::map<RankKey, Sums> sums;
  for (const JobReport& job : report.jobs)
    for (const CommunicatorReport& communicator : job.communicators)
      for (const RankReport& rank : communicator.ranks) sums[{communicator.id, rank.rank, rank.pid}] = sums_of(rank);
  return sums;
}

/// Of the time from one look to the next, that in what is still pending; what is over is in the totals.
double pending_since(const RankReport& rank, double before, double now) {
  double since = now;
  if (rank.alive)
    for (const PendingView& pending : rank.pending)
      since = std::min(since, std::max(before, pending.operation.entered));
  return now - since;
}

/// Of that, the time in which it waited for others, as far as that can be told.
double waited_since(const RankReport& rank, double before, double now) {
  double longest = 0;
  if (rank.alive)
    for (const PendingView& pending : rank.pending)
      longest =
          std::max(longest, std::min(pending.operation.waited, now - std::max(before, pending.operation.entered)));
  return longest;
}

/// The rank that was waited for longest since the earlier look, where that is worth a word.
std::optional<int> mostly_for(const Sums& now, const Sums& before, double elapsed) {
  constexpr double kWorthAWord = 0.01;  // of the time
  std::optional<int> found;
  double longest = kWorthAWord * elapsed;
  for (const auto& [rank, seconds] : now.waited_for) {
    const auto known = before.waited_for.find(rank);
    const double waited = seconds - (known != before.waited_for.end() ? known->second : 0);
    if (waited <= longest) continue;
    longest = waited;
    found = rank;
  }
  return found;
}

std::vector<RankRate> rates_of(const ClusterReport& report, const ClusterReport& earlier) {
  const double elapsed = std::max(1e-3, report.now - earlier.now);
  const std::map<RankKey, Sums> sums = sums_of(earlier);
  std::vector<RankRate> rates;
  for (const JobReport& job : report.jobs)
    for (const CommunicatorReport& communicator : job.communicators)
      for (const RankReport& rank : communicator.ranks) {
        RankRate& rate = rates.emplace_back();
        rate.communicator = &communicator;
        rate.rank = &rank;
        const auto known = sums.find({communicator.id, rank.rank, rank.pid});
        const Sums before = known != sums.end() ? known->second : Sums{};
        if (rank.operations < before.operations) continue;
        rate.operations = static_cast<double>(rank.operations - before.operations) / elapsed;
        rate.bytes = static_cast<double>(rank.bytes - before.bytes) / elapsed;
        const double pending = pending_since(rank, earlier.now, report.now);
        const double waiting = waited_since(rank, earlier.now, report.now);
        // An operation that began before the earlier look is counted whole when it ends.
        rate.in_operations = std::clamp((rank.seconds - before.seconds + pending) / elapsed, 0.0, 1.0);
        rate.waiting = std::clamp((rank.waited - before.waited + waiting) / elapsed, 0.0, rate.in_operations);
        rate.mostly_for = mostly_for(sums_of(rank), before, elapsed);
      }
  return rates;
}

void sort_by(std::vector<RankRate>& rates, TopOrder order) {
  const auto value = [order](const RankRate& rate) {
    return order == TopOrder::operations ? rate.operations : order == TopOrder::bytes ? rate.bytes : rate.waiting;
  };
  if (order == TopOrder::rank) return;
  std::stable_sort(rates.begin(), rates.end(),
                   [&](const RankRate& a, const RankRate& b) { return value(a) > value(b); });
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::vector<std::string> rank_lines(const std::vector<RankRate>& rates, const ClusterReport& report, bool color) {
  Table table({{"communicator"},
               {"rank", true},
               {"pid", true},
               {"op/s", true},
               {"bytes/s", true},
               {"in ops", true},
               {"waiting", true},
               {"mostly for"},
               {"operation"},
               {"for", true},
               {"waits for", true}});
  for (const RankRate& rate : rates) {
    const RankReport& rank = *rate.rank;
    const auto& waits = rate.communicator->waits;
    const auto wait =
        std::find_if(waits.begin(), waits.end(), [&](const Wait& each) { return each.waiter == rank.rank; });
    const std::string& name = rate.communicator->name;
    std::string operation, lasting;
    if (!rank.alive) {
      operation = end_of(rank);
    } else if (rank.state != CommunicatorRecord::alive) {
      operation = name_of(rank.state);
    } else if (!rank.pending.empty()) {
      operation = title_of(rank.pending[0].operation);
      lasting = duration_text(std::max(0.0, report.now - rank.pending[0].operation.entered));
    }
    std::optional<Color> shade;
    if (rate.waiting > 0.5) shade = Color::yellow;
    if ((!rank.alive && !rank.ended) || rank.state == CommunicatorRecord::broken) shade = Color::red;
    table.add(
        {name.empty() ? short_name(rate.communicator->id) : name, std::to_string(rank.rank), std::to_string(rank.pid),
         fmt::format("{:.0f}", rate.operations), bytes_text(rate.bytes), percent(rate.in_operations),
         percent(rate.waiting), rate.mostly_for ? fmt::format("rank {}", *rate.mostly_for) : "", operation, lasting,
         wait != waits.end() ? std::to_string(wait->awaited) : ""},
        shade);
  }
  return table.lines("", color);
}

using LaneKey = std::tuple<int, std::uint32_t, std::string>;  // pid, slot, address

std::map<LaneKey, std::uint64_t> brought_by(const ClusterReport& report) {
  std::map<LaneKey, std::uint64_t> bytes;
  for (const ProcessReport& process : report.processes)
    for (const LaneReport& each : process.lanes)
      bytes[{process.pid, each.lane.slot, each.lane.name}] = each.lane.done_bytes + each.lane.quick_bytes;
  return bytes;
}

std::vector<std::string> lane_lines(const ClusterReport& report, const ClusterReport& earlier, bool color) {
  const std::map<LaneKey, std::uint64_t> before = brought_by(earlier);
  const double elapsed = std::max(1e-3, report.now - earlier.now);
  Table table({{"rank", true},
               {"to"},
               {"lane", true},
               {"bytes/s", true},
               {"window", true},
               {"usually", true},
               {"the last chunks"},
               {"condition"}});
  for (const ProcessReport& process : report.processes) {
    if (!process.alive) continue;
    for (const LaneReport& each : process.lanes) {
      const LaneView& lane = each.lane;
      const auto known = before.find({process.pid, lane.slot, lane.name});
      const std::uint64_t bytes = lane.done_bytes + lane.quick_bytes;
      const std::uint64_t then = known != before.end() ? std::min(known->second, bytes) : 0;
      std::vector<double> windows;
      for (const ChunkView& chunk : lane.chunks) windows.push_back(chunk.rate);
      std::string condition = lane.state;
      std::optional<Color> shade;
      if (lane.state != "healthy") shade = Color::red;
      if (lane.condition != Condition::normal) {
        condition += fmt::format(", {}: {}", name_of(lane.condition), name_of(lane.cause));
        if (lane.condition == Condition::stalled)
          shade = Color::red;
        else if (lane.cause != Cause::sender_starved)
          shade = Color::yellow;
      }
      table.add({process.rank ? std::to_string(*process.rank) : fmt::format("pid {}", process.pid), peer_of(lane),
                 std::to_string(lane.index), bytes_text(static_cast<double>(bytes - then) / elapsed),
                 bytes_text(lane.rate), bytes_text(lane.usual), sparkline(windows, kSparkColumns), condition},
                shade);
    }
  }
  return table.lines("", color);
}

/// "all is well" is said only where there is nothing to say.
std::string verdict(std::ptrdiff_t wrong, std::size_t findings, bool color) {
  if (wrong > 0) return paint(fmt::format("{} wrong", wrong), Color::red, color);
  if (findings > 0) return paint(fmt::format("{} to note", findings), Color::yellow, color);
  return paint("all is well", Color::green, color);
}

}  // namespace

std::string sparkline(const std::vector<double>& values, std::size_t columns) {
  static constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.empty()) return "";
  // One window that was lucky must not make all others look like nothing.
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const double highest = std::max(1e-9, std::min(sorted.back(), 2 * sorted[sorted.size() / 2]));
  const std::size_t shown = std::min(columns, values.size());
  std::string bars;
  for (std::size_t i = 0; i < shown; ++i) {
    // The lowest of those that share a column: a dip must not vanish in a mean.
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(i * values.size() / shown);
    const auto last = values.begin() + static_cast<std::ptrdiff_t>((i + 1) * values.size() / shown);
    const double share = *std::min_element(first, last) / highest;
    bars += kBars[static_cast<std::size_t>(std::clamp(8 * share + 0.5, 0.0, 8.0))];
  }
  return bars;
}

TopFrame top_frame(const Snapshot& before, const Snapshot& now, const TopStyle& style) {
  const ClusterReport earlier = analyze(before);
  const ClusterReport report = analyze(now);
  std::vector<RankRate> rates = rates_of(report, earlier);
  sort_by(rates, style.order);
  const auto total = [&](double RankRate::*member) {
    return std::accumulate(rates.begin(), rates.end(), 0.0,
                           [&](double sum, const RankRate& rate) { return sum + rate.*member; });
  };
  const auto wrong = std::count_if(report.findings.begin(), report.findings.end(),
                                   [](const Finding& finding) { return finding.wrong; });
  TopFrame frame;
  frame.head.push_back(fmt::format("tutti top: {} processes, {} ranks; {:.0f} op/s, {}/s; {}", report.processes.size(),
                                   rates.size(), total(&RankRate::operations), bytes_text(total(&RankRate::bytes)),
                                   verdict(wrong, report.findings.size(), style.color)));
  frame.body = rank_lines(rates, report, style.color);
  const std::vector<std::string> lanes = lane_lines(report, earlier, style.color);
  if (!lanes.empty()) frame.body.push_back("");
  frame.body.insert(frame.body.end(), lanes.begin(), lanes.end());
  if (!report.findings.empty()) frame.body.push_back("");
  for (const Finding& finding : report.findings)
    frame.body.push_back(paint(finding.text, finding.wrong ? Color::red : Color::yellow, style.color));
  return frame;
}

}  // namespace tutti::cli
