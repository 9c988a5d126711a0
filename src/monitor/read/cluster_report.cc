#include "monitor/read/cluster_report.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "monitor/read/cluster_report_parts.hpp"

namespace tutti::monitor {
namespace {

bool is_collective(const OperationView& operation) { return operation.collective != Collective::point_to_point; }

RankReport rank_of(const CommunicatorView& view, const ProcessView& process, std::size_t index) {
  RankReport rank;
  rank.rank = view.rank;
  rank.process = index;
  rank.pid = process.pid;
  rank.alive = process.alive;
  rank.stopped = process.stopped;
  rank.ended = process.ended;
  rank.told_to_end = process.told_to_end;
  rank.state = view.state;
  rank.error = view.error;
  rank.entered = view.entered;
  rank.done = view.done;
  rank.ends_entered = view.ends_entered;
  rank.ends_done = view.ends_done;
  for (const TotalView& total : view.totals) {
    rank.operations += total.operations;
    rank.bytes += total.bytes;
    rank.seconds += total.seconds;
    rank.waited += total.waited;
  }
  rank.waited_for = view.waits;
  rank.pending = view.pending;
  rank.recent = view.operations;
  rank.marks = view.marks;
  rank.links = view.links;
  for (const OperationView& operation : view.operations)
    if (is_collective(operation)) rank.last_done = operation;
  if (rank.last_done) rank.last_entered = rank.last_done->number;
  for (const PendingView& pending : view.pending)
    if (is_collective(pending.operation)) rank.last_entered = pending.operation.number;
  return rank;
}

ProcessReport process_of(const ProcessView& view) {
  ProcessReport process;
  process.file = view.file;
  process.host = view.host;
  process.command = view.command;
  process.launcher_job = view.launcher_job;
  process.pid = view.pid;
  process.alive = view.alive;
  process.ended = view.ended;
  process.lost_communicators = view.lost_communicators;
  process.lost_lanes = view.lost_lanes;
  std::map<std::tuple<int, std::string>, double> to_peer;
  const auto brought = [](const LaneView& lane) { return static_cast<double>(lane.done_bytes + lane.quick_bytes); };
  for (const LaneView& lane : view.lanes) to_peer[{lane.peer, lane.peer_name}] += brought(lane);
  for (const LaneView& lane : view.lanes) {
    const double all = to_peer[{lane.peer, lane.peer_name}];
    process.lanes.push_back({lane, all > 0 ? brought(lane) / all : 0});
  }
  return process;
}

/// Where two processes claim a rank, the one that lives; of two that do not, the later.
void seat(CommunicatorReport& communicator, RankReport rank) {
  const auto place = std::lower_bound(communicator.ranks.begin(), communicator.ranks.end(), rank.rank,
                                      [](const RankReport& each, int number) { return each.rank < number; });
  if (place == communicator.ranks.end() || place->rank != rank.rank)
    communicator.ranks.insert(place, std::move(rank));
  else if (rank.alive || !place->alive)
    *place = std::move(rank);
}

CommunicatorReport& find_communicator(JobReport& job, const CommunicatorView& view) {
  for (CommunicatorReport& each : job.communicators)
    if (each.id == view.id) return each;
  CommunicatorReport communicator;
  communicator.id = view.id;
  communicator.name = view.name;
  communicator.size = view.size;
  communicator.hosts = view.hosts;
  job.communicators.push_back(std::move(communicator));
  return job.communicators.back();
}

JobReport& find_job(ClusterReport& report, std::uint64_t id, const ProcessReport& process) {
  for (JobReport& each : report.jobs)
    if (each.id == id) return each;
  report.jobs.push_back({id, process.launcher_job, process.command, {}, {}});
  return report.jobs.back();
}

void take_in(ClusterReport& report, const ProcessView& view, const ReportOptions& options) {
  const std::size_t index = report.processes.size();
  report.processes.push_back(process_of(view));
  const auto belongs = [&](JobReport& job) {
    if (job.processes.empty() || job.processes.back() != index) job.processes.push_back(index);
  };
  for (const CommunicatorView& each : view.communicators) {
    JobReport& job = find_job(report, each.job, report.processes[index]);
    belongs(job);
    if (each.id == each.job) report.processes[index].rank = each.rank;
    if (each.state == CommunicatorRecord::closed && !options.with_closed) continue;
    CommunicatorReport& communicator = find_communicator(job, each);
    // A record that contradicts the others of its communicator is not one of it.
    if (each.size == communicator.size) seat(communicator, rank_of(each, view, index));
  }
  if (view.communicators.empty()) belongs(find_job(report, 0, report.processes[index]));
}

CommunicatorRecord::State state_of(const CommunicatorReport& communicator) {
  const auto any = [&](CommunicatorRecord::State state) {
    return std::any_of(communicator.ranks.begin(), communicator.ranks.end(),
                       [&](const RankReport& rank) { return rank.state == state; });
  };
  if (std::any_of(communicator.ranks.begin(), communicator.ranks.end(), is_broken)) return CommunicatorRecord::broken;
  const bool all_ended = std::all_of(communicator.ranks.begin(), communicator.ranks.end(),
                                     [](const RankReport& rank) { return !rank.alive && rank.ended; });
  return any(CommunicatorRecord::alive) && !all_ended ? CommunicatorRecord::alive : CommunicatorRecord::closed;
}

std::vector<RankRange> not_seen(const CommunicatorReport& communicator) {
  std::vector<RankRange> ranges;
  int next = 0;
  for (const RankReport& rank : communicator.ranks) {
    if (rank.rank > next) ranges.push_back({next, rank.rank - 1});
    next = rank.rank + 1;
  }
  if (next < communicator.size) ranges.push_back({next, communicator.size - 1});
  return ranges;
}

}  // namespace

bool ClusterReport::is_wrong() const {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.wrong; });
}

bool is_broken(const RankReport& rank) {
  return rank.state == CommunicatorRecord::broken && (rank.alive || rank.told_to_end == 0);
}

const RankReport* find_rank(const CommunicatorReport& communicator, int rank) {
  const auto place = std::lower_bound(communicator.ranks.begin(), communicator.ranks.end(), rank,
                                      [](const RankReport& each, int number) { return each.rank < number; });
  return place != communicator.ranks.end() && place->rank == rank ? &*place : nullptr;
}

ClusterReport analyze(const Snapshot& snapshot, const ReportOptions& options) {
  ClusterReport report;
  report.now = snapshot.now;
  report.problems = snapshot.problems;
  for (const ProcessView& process : snapshot.processes) take_in(report, process, options);
  for (JobReport& job : report.jobs)
    for (CommunicatorReport& communicator : job.communicators) {
      communicator.state = state_of(communicator);
      communicator.not_seen = not_seen(communicator);
      find_waits(communicator, snapshot.now);
      find_stragglers(communicator);
      find_mismatches(communicator);
    }
  judge(report, snapshot, options);
  return report;
}

}  // namespace tutti::monitor
