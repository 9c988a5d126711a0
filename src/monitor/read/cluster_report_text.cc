// The sentences of a report.
#include <fmt/core.h>
#include <string.h>

#include <algorithm>
#include <cmath>

#include "monitor/read/cluster_report_parts.hpp"
#include "monitor/read/rank_meetings.hpp"

namespace tutti::monitor {
namespace {

constexpr double kWorthKnowing = 1;  // seconds of waiting

class Judge {
 public:
  Judge(ClusterReport& report, const ReportOptions& options) : report_(report), options_(options) {}

  void communicator(const CommunicatorReport& communicator);
  void process(const ProcessReport& process);
  void gathering(const RankMeeting& gathering);

 private:
  void tell(bool wrong, std::string text) { report_.findings.push_back({wrong, std::move(text)}); }
  void broken_or_killed(const CommunicatorReport& communicator, const std::string& name);
  void lane(const ProcessReport& process, const LaneView& lane);

  ClusterReport& report_;
  const ReportOptions& options_;
};

std::string name_of(const CommunicatorReport& communicator) {
  return communicator.name.empty() ? fmt::format("communicator {}", short_name(communicator.id)) : communicator.name;
}

std::string died_text(const RankReport& rank) {
  if (!rank.pending.empty())
    return fmt::format("in {}, {}", title_of(rank.pending[0].operation), steps_of(rank.pending[0]));
  return rank.last_done ? fmt::format("after {}", title_of(*rank.last_done)) : "before its first operation";
}

/// "rank 1 came last, and cost the others 30 ms of every 35 ms (87 % of the last 12.0 s)".
std::string straggler_text(const Straggler& straggler) {
  constexpr int kFewest = 4;  // times, before a step is made out among them
  constexpr double kFits = 0.2;
  const std::string all =
      fmt::format("{:.0f} % of the last {}", 100 * straggler.share(), duration_text(straggler.seconds));
  const char* const how =
      straggler.why == Straggler::Habit::late
          ? "came last"
          : "came with the others and was waited for then (it stood still, or the way to it is slow)";
  const std::string who = fmt::format("rank {} {}, and cost the others", straggler.rank, how);
  const double often = straggler.times > 0 ? straggler.remembered / straggler.times : 0;
  const bool has_step = straggler.why == Straggler::Habit::late && straggler.times >= kFewest &&
                        std::abs(straggler.late / often - straggler.share()) < kFits * straggler.share();
  if (!has_step) return fmt::format("{} {}", who, all);
  return fmt::format("{} {} of every {} ({})", who, duration_text(straggler.late), duration_text(often), all);
}

void Judge::broken_or_killed(const CommunicatorReport& communicator, const std::string& name) {
  std::vector<int> broken;
  std::string error;
  for (const RankReport& rank : communicator.ranks) {
    if (is_broken(rank)) {
      broken.push_back(rank.rank);
      if (error.empty()) error = rank.error;
    }
    if (!rank.alive && !rank.ended && rank.state == CommunicatorRecord::alive)
      tell(true, fmt::format("{}: rank {} (pid {}) was killed {}", name, rank.rank, rank.pid, died_text(rank)));
  }
  if (!broken.empty()) tell(true, fmt::format("{}: broken on {}: {}", name, text_of(broken), error));
}

void Judge::communicator(const CommunicatorReport& communicator) {
  const std::string name = name_of(communicator);
  broken_or_killed(communicator, name);
  for (const Mismatch& mismatch : communicator.mismatches) tell(true, fmt::format("{}: {}", name, mismatch.text));
  for (const Blocker& blocker : communicator.blockers) {
    if (blocker.seconds < kWorthKnowing) continue;
    const std::string who = blocker.why == Blocker::Why::circle ? "" : fmt::format("rank {} ", blocker.rank);
    const std::string waiting =
        blocker.waiters.empty()
            ? ""
            : fmt::format("; {} {} for it, for {}", text_of(blocker.waiters),
                          blocker.waiters.size() == 1 ? "waits" : "wait", duration_text(blocker.seconds));
    tell(blocker.seconds >= options_.late, fmt::format("{}: {}{}{}", name, who, blocker.text, waiting));
  }
  for (const Straggler& each : communicator.stragglers) tell(false, fmt::format("{}: {}", name, straggler_text(each)));
}

void Judge::lane(const ProcessReport& process, const LaneView& lane) {
  const std::string who =
      fmt::format("{}lane {} to {} ({})", process.rank ? fmt::format("rank {}: ", *process.rank) : "", lane.index,
                  peer_of(lane), lane.name);
  const std::string lasting = duration_text(std::max(0.0, report_.now - lane.since));
  if (lane.state == "dead" || lane.state == "held down" || (lane.state == "probing" && !lane.reason.empty()))
    tell(true, fmt::format("{} is {} for {}: {}", who, lane.state, lasting, lane.reason));
  else if (lane.state == "suspect")
    tell(false, fmt::format("{} has been silent, suspect for {}", who, lasting));
  if (lane.corrupted_at != 0) tell(false, fmt::format("{}: {}", who, corruption_of(lane)));
  // A lane that was given less to send is as well as before.
  const bool starved = lane.condition == Condition::dropped && lane.cause == Cause::sender_starved;
  if (lane.condition == Condition::normal || starved) return;
  const bool stalled = lane.condition == Condition::stalled;
  tell(stalled, fmt::format("{} {}: {}/s, usually {}/s ({})", who, stalled ? "is stalled" : "has dropped",
                            bytes_text(lane.rate), bytes_text(lane.usual), monitor::name_of(lane.cause)));
}

void Judge::process(const ProcessReport& process) {
  if (process.alive)
    for (const LaneReport& each : process.lanes) lane(process, each.lane);
  if (process.lost_communicators != 0)
    tell(false, fmt::format("pid {}: {} communicators are not recorded; TUTTI_MONITOR_COMMUNICATORS makes room",
                            process.pid, process.lost_communicators));
  if (process.lost_lanes != 0)
    tell(false, fmt::format("pid {}: {} lanes are not recorded; TUTTI_MONITOR_LANES makes room", process.pid,
                            process.lost_lanes));
}

void Judge::gathering(const RankMeeting& gathering) {
  const double seconds = report_.now - gathering.began;
  if (seconds < kWorthKnowing) return;
  std::vector<int> waiting;
  for (const WaitingRank& each : gathering.waiting) waiting.push_back(each.rank);
  const std::vector<int> missing = gathering.missing();
  const std::string how = missing.empty()
                              ? "all have come"
                              : fmt::format("{} {} not come", text_of(missing), missing.size() == 1 ? "has" : "have");
  tell(seconds >= options_.late && !missing.empty(),
       fmt::format("{} of {} {} making a communicator, for {}: {}", text_of(waiting), gathering.size,
                   waiting.size() == 1 ? "is" : "are", duration_text(seconds), how));
}

}  // namespace

void judge(ClusterReport& report, const Snapshot& snapshot, const ReportOptions& options) {
  Judge judge(report, options);
  for (const RankMeeting& each : rank_meetings_of(snapshot)) judge.gathering(each);
  for (const JobReport& job : report.jobs)
    for (const CommunicatorReport& communicator : job.communicators) judge.communicator(communicator);
  for (const ProcessReport& process : report.processes) judge.process(process);
  std::stable_partition(report.findings.begin(), report.findings.end(),
                        [](const Finding& finding) { return finding.wrong; });
}

const char* name_of(Blocker::Why why) {
  static constexpr const char* kNames[] = {"not_entered", "killed", "not_seen", "at_work", "circle"};
  return kNames[static_cast<std::size_t>(why)];
}

const char* name_of(Straggler::Habit why) { return why == Straggler::Habit::late ? "late" : "slow"; }

std::string short_name(std::uint64_t id) { return fmt::format("{:016x}", id).substr(0, 8); }

std::string title_of(const OperationView& operation) {
  if (operation.collective == Collective::point_to_point)
    return fmt::format("{} #{} {} {}", operation.sends ? "send" : "recv", operation.number,
                       operation.sends ? "to" : "from", operation.root);
  return fmt::format("{} #{}", name_of(operation.collective), operation.number);
}

std::string end_of(const RankReport& rank) {
  if (!rank.ended) return "was killed";
  const char* const name = rank.told_to_end != 0 ? ::sigabbrev_np(rank.told_to_end) : nullptr;
  return name != nullptr ? fmt::format("was ended by SIG{}", name) : "has ended";
}

std::string steps_of(const PendingView& pending) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < pending.workers.size() && i < kShown; ++i)
    text += fmt::format("{}worker {} step {}", i == 0 ? "" : ", ", i, pending.workers[i].steps_done);
  if (pending.workers.size() > kShown) text += fmt::format(" and {} more", pending.workers.size() - kShown);
  return text;
}

std::string text_of(const std::vector<int>& ranks) {
  std::vector<RankRange> ranges;
  for (const int rank : ranks) {
    if (!ranges.empty() && ranges.back().last + 1 == rank)
      ranges.back().last = rank;
    else
      ranges.push_back({rank, rank});
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", text_of(ranges));
}

std::string text_of(const std::vector<RankRange>& ranges) {
  std::string text;
  for (const RankRange& range : ranges) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", range.first);
    if (range.last != range.first) text += fmt::format("-{}", range.last);
  }
  return text;
}

std::string duration_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.0f} ms", 1e3 * seconds);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string bytes_text(double bytes) {
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (bytes /= 1000; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  return bytes < 9.95 ? fmt::format("{:.1f} {}", bytes, kUnits[unit]) : fmt::format("{:.0f} {}", bytes, kUnits[unit]);
}

}  // namespace tutti::monitor
