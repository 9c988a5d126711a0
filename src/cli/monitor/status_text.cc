#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "cli/monitor/status_view.hpp"
#include "cli/support/table.hpp"
#include "cli/support/terminal.hpp"

namespace tutti::cli {
namespace {

using namespace monitor;  // NOLINT(google-build-using-namespace): this file speaks of nothing else

constexpr std::size_t kUnfolded = 16;  // ranks of a communicator, or peers of a process, shown one by one
constexpr double kLong = 1;            // seconds, after which a pending operation's links are of interest

/// What a rank does, as told in its line; ranks that do the same may share one.
struct Activity {
  std::string operation, size, program, waits_for, note;
  std::optional<Color> color;

  bool operator==(const Activity&) const = default;
};

struct Line {
  Activity activity;
  std::vector<int> ranks;
  const RankReport* first = nullptr;
  double seconds = 0;
};

Activity activity_of(const CommunicatorReport& communicator, const RankReport& rank) {
  Activity activity;
  if (!rank.pending.empty()) {
    const OperationView& operation = rank.pending[0].operation;
    activity.operation = title_of(operation);
    activity.size = bytes_text(static_cast<double>(operation.bytes));
    activity.program = operation.program;
    if (rank.pending.size() > 1) activity.note = fmt::format("and {} more pending", rank.pending.size() - 1);
  } else {
    activity.operation = rank.last_done ? fmt::format("none since #{}{}", rank.last_done->number,
                                                      rank.last_done->failed ? ", which failed" : "")
                                        : "none yet";
  }
  for (const Wait& wait : communicator.waits)
    if (wait.waiter == rank.rank && activity.waits_for.empty()) {
      activity.waits_for = fmt::format("rank {}", wait.awaited);
      activity.color = Color::yellow;
    }
  for (const Blocker& blocker : communicator.blockers)
    if (blocker.rank == rank.rank && blocker.seconds >= kLong) activity.color = Color::red;
  if (rank.state != CommunicatorRecord::alive) activity.note = name_of(rank.state);
  if (rank.stopped) activity.note = "is stopped";
  if (!rank.alive) activity.note = end_of(rank);
  if ((!rank.alive && !rank.ended) || rank.state == CommunicatorRecord::broken) activity.color = Color::red;
  return activity;
}

/// How far chunks have come from and to the rank that is awaited.
std::string links_text(const RankReport& rank) {
  const PendingView& pending = rank.pending[0];
  std::string text;
  for (const LinkView& link : rank.links) {
    if (link.operation != pending.operation.number || link.peer != pending.awaited || link.posted == link.acked)
      continue;
    if (!text.empty()) text += "; ";
    text += link.receives ? fmt::format("chunks from {}: {} expected, {} received, {} done", link.peer, link.posted,
                                        link.sent, link.acked)
                          : fmt::format("chunks to {}: {} posted, {} sent, {} acknowledged", link.peer, link.posted,
                                        link.sent, link.acked);
  }
  return text;
}

/// Steps that each worker has done: "3 3 1".
std::string progress_text(const PendingView& pending) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < pending.workers.size() && i < kShown; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : " ", pending.workers[i].steps_done);
  return pending.workers.size() > kShown ? text + " ..." : text;
}

std::string numbers_of(const std::vector<int>& ranks) {
  const std::string text = text_of(ranks);
  return text.substr(text.find(' ') + 1);
}

class StatusText {
 public:
  StatusText(const ClusterReport& report, const StatusStyle& style) : report_(report), style_(style) {}

  std::string text();

 private:
  void say(const std::string& line) { text_ += line + '\n'; }
  void say(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) say(line);
  }
  std::string painted(std::string_view text, Color color) const { return paint(text, color, style_.color); }

  void job(const JobReport& job);
  void communicator(const CommunicatorReport& communicator);
  std::vector<Line> fold(const CommunicatorReport& communicator) const;
  void lanes(const JobReport& job);
  void lanes_to(const ProcessReport& process, const std::vector<const LaneReport*>& lanes, Table& table) const;
  void findings();

  const ClusterReport& report_;
  const StatusStyle& style_;
  std::string text_;
};

std::vector<Line> StatusText::fold(const CommunicatorReport& communicator) const {
  const bool folded = !style_.all && communicator.ranks.size() > kUnfolded;
  std::vector<Line> lines;
  for (const RankReport& rank : communicator.ranks) {
    const Activity activity = activity_of(communicator, rank);
    const auto same =
        std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return folded && line.activity == activity; });
    Line& line = same != lines.end() ? *same : lines.emplace_back(Line{activity, {}, &rank, 0});
    line.ranks.push_back(rank.rank);
    if (!rank.pending.empty()) line.seconds = std::max(line.seconds, report_.now - rank.pending[0].operation.entered);
  }
  return lines;
}

void StatusText::communicator(const CommunicatorReport& communicator) {
  const std::string name = communicator.name.empty() ? short_name(communicator.id) : communicator.name;
  const bool broken = communicator.state == CommunicatorRecord::broken;
  std::string line = fmt::format("  {}  {} ranks, {} host{}, {}", painted(name, Color::bold), communicator.size,
                                 communicator.hosts, communicator.hosts == 1 ? "" : "s",
                                 painted(name_of(communicator.state), broken ? Color::red : Color::green));
  if (!communicator.not_seen.empty()) line += fmt::format("; not recorded here: {}", text_of(communicator.not_seen));
  say(line);
  Table table({{"rank", true},
               {"pid", true},
               {"done", true},
               {"operation"},
               {"bytes", true},
               {"program"},
               {"for", true},
               {"steps"},
               {"waits for"},
               {""}});
  for (const Line& each : fold(communicator)) {
    const bool one = each.ranks.size() == 1;
    const RankReport& rank = *each.first;
    const Activity& activity = each.activity;
    table.add({numbers_of(each.ranks), one ? std::to_string(rank.pid) : "", one ? std::to_string(rank.done) : "",
               activity.operation, activity.size, activity.program,
               rank.pending.empty() || !rank.alive ? "" : duration_text(std::max(0.0, each.seconds)),
               one && !rank.pending.empty() ? progress_text(rank.pending[0]) : "", activity.waits_for, activity.note},
              activity.color);
    if (one && rank.alive && !rank.pending.empty() && each.seconds >= kLong) table.below(links_text(rank));
  }
  say(table.lines("    ", style_.color));
}

/// Lanes of a process to one peer: a line for all where all are well.
void StatusText::lanes_to(const ProcessReport& process, const std::vector<const LaneReport*>& lanes,
                          Table& table) const {
  const std::string from = process.rank ? std::to_string(*process.rank) : fmt::format("pid {}", process.pid);
  const auto is_well = [](const LaneReport* each) {
    const LaneView& lane = each->lane;
    const bool starved = lane.condition == Condition::dropped && lane.cause == Cause::sender_starved;
    return lane.state == "healthy" && (lane.condition == Condition::normal || starved) && lane.corrupted_at == 0;
  };
  if (!style_.all && lanes.size() > 1 && std::all_of(lanes.begin(), lanes.end(), is_well)) {
    double rate = 0, usual = 0;
    for (const LaneReport* const each : lanes) rate += each->lane.rate, usual += each->lane.usual;
    table.add({from, peer_of(lanes[0]->lane), fmt::format("all {}", lanes.size()), "healthy", bytes_text(rate) + "/s",
               bytes_text(usual) + "/s", "", "", ""});
    return;
  }
  for (const LaneReport* const each : lanes) {
    const LaneView& lane = each->lane;
    const bool normal = lane.condition == Condition::normal;
    std::string condition = normal ? "" : fmt::format("{}: {}", name_of(lane.condition), name_of(lane.cause));
    if (lane.corrupted_at != 0) condition += (normal ? "" : ", ") + monitor::corruption_of(lane);
    std::optional<Color> color;
    if (!is_well(each))
      color = lane.state == "healthy" && lane.condition != Condition::stalled ? Color::yellow : Color::red;
    table.add({from, peer_of(lane), std::to_string(lane.index), lane.state + (lane.relayed ? ", relayed" : ""),
               bytes_text(lane.rate) + "/s", bytes_text(lane.usual) + "/s", fmt::format("{:.0f} %", 100 * each->share),
               lane.name, condition},
              color);
    if (lane.state != "healthy") table.below(lane.reason);
  }
}

void StatusText::lanes(const JobReport& job) {
  Table table({{"rank", true},
               {"to"},
               {"lane", true},
               {"state"},
               {"now", true},
               {"usually", true},
               {"share", true},
               {"address"},
               {"condition"}});
  for (const std::size_t index : job.processes) {
    const ProcessReport& process = report_.processes[index];
    std::map<std::pair<int, std::string>, std::vector<const LaneReport*>> peers;
    for (const LaneReport& each : process.lanes) peers[{each.lane.peer, each.lane.peer_name}].push_back(&each);
    for (const auto& [peer, lanes] : peers) lanes_to(process, lanes, table);
  }
  const std::vector<std::string> lines = table.lines("    ", style_.color);
  if (lines.empty()) return;
  say(fmt::format("  {}", painted("lanes", Color::bold)));
  say(lines);
}

void StatusText::job(const JobReport& job) {
  if (job.id == 0) {
    say(fmt::format("{} process{} without a communicator", job.processes.size(),
                    job.processes.size() == 1 ? "" : "es"));
    return;
  }
  const std::string name = job.launcher_job.empty() ? short_name(job.id) : job.launcher_job;
  say(fmt::format("{} {} ({}), {} process{} here", painted("job", Color::bold), painted(name, Color::bold), job.command,
                  job.processes.size(), job.processes.size() == 1 ? "" : "es"));
  for (const CommunicatorReport& each : job.communicators) communicator(each);
  if (job.communicators.empty()) say("  all its communicators are closed");
  lanes(job);
}

void StatusText::findings() {
  if (report_.findings.empty()) say(painted("all is well", Color::green));
  for (const Finding& finding : report_.findings)
    say(fmt::format("{} {}", painted(finding.wrong ? "wrong:" : "note:", finding.wrong ? Color::red : Color::yellow),
                    finding.text));
}

std::string StatusText::text() {
  for (const JobReport& each : report_.jobs) {
    job(each);
    say("");
  }
  if (!report_.jobs.empty()) findings();
  for (const std::string& problem : report_.problems)
    say(fmt::format("{} {}", painted("unread:", Color::yellow), problem));
  return text_;
}

}  // namespace

std::string status_text(const ClusterReport& report, const StatusStyle& style) {
  return StatusText(report, style).text();
}

}  // namespace tutti::cli
