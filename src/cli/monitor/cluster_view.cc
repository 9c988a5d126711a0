#include "cli/monitor/cluster_view.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "cli/support/table.hpp"
#include "diagnosis/stuck_operations.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"
#include "diagnosis/wording.hpp"

namespace tutti::cli {
namespace {

using diagnosis::CommunicatorFacts;
using diagnosis::MemberFacts;
using diagnosis::OperationFacts;
using diagnosis::ProcessFacts;
using diagnosis::ProcessState;
using diagnosis::Telemetry;
using Json = nlohmann::ordered_json;

constexpr std::size_t kUnfolded = 64;  // lines of a job without --all

const char* word_of(ProcessState state) {
  static constexpr const char* kWords[] = {
      "running", "is stopped", "was killed", "has ended", "agent does not answer", "no agent there"};
  return kWords[static_cast<std::size_t>(state)];
}

/// An operation that a process is in.
struct UnderWay {
  const CommunicatorFacts* communicator = nullptr;
  const OperationFacts* operation = nullptr;

  double entered() const { return operation->entered; }
  std::string title() const {
    return fmt::format("{} of {}", diagnosis::title_of(operation->call), name_of(*communicator));
  }
};

/// What a process does: the operation that it has been in for longest, and how many it is through with.
struct Doing {
  std::vector<UnderWay> operations;
  std::int64_t done = 0;
  bool is_broken = false;

  const UnderWay* longest() const {
    const auto found = std::min_element(operations.begin(), operations.end(), [](const auto& one, const auto& other) {
      return one.entered() < other.entered();
    });
    return found == operations.end() ? nullptr : &*found;
  }
};

std::vector<Doing> doings_of(const Telemetry& job) {
  std::vector<Doing> doings(job.processes.size());
  for (const CommunicatorFacts& communicator : job.communicators)
    for (const MemberFacts& member : communicator.members) {
      if (member.process < 0) continue;
      Doing& doing = doings[static_cast<std::size_t>(member.process)];
      doing.done += member.last_done + 1;
      doing.is_broken = doing.is_broken || member.state == MemberFacts::State::broken;
      for (const OperationFacts& operation : member.operations)
        if (!operation.failed) doing.operations.push_back({&communicator, &operation});
    }
  return doings;
}

/// Ranks of a host that do the same.
struct HostLine {
  std::string host, state, operation, waits_for;
  std::vector<int> ranks;
  double seconds = 0, rate = 0;  // the longest in the operation; operations per second, on average
  std::optional<Color> color;
};

class JobLines {
 public:
  JobLines(const Telemetry& job, const Telemetry* before) : job_(job), before_(before) {}

  std::vector<HostLine> lines() const {
    const std::vector<Doing> doings = doings_of(job_);
    const std::map<std::pair<std::string, int>, std::int64_t> done_before = counts_before();
    std::map<std::tuple<std::string, std::string, std::string, std::string>, HostLine> folded;
    for (std::size_t i = 0; i < job_.processes.size(); ++i) {
      const ProcessFacts& process = job_.processes[i];
      HostLine line = line_of(process, doings[i]);
      const auto [place, is_new] = folded.try_emplace({line.host, line.state, line.operation, line.waits_for}, line);
      HostLine& known = place->second;
      known.ranks.push_back(process.rank);
      known.seconds = std::max(known.seconds, line.seconds);
      if (const auto before = done_before.find({process.host, process.pid}); before != done_before.end())
        known.rate += static_cast<double>(std::max<std::int64_t>(0, doings[i].done - before->second)) / elapsed();
    }
    std::vector<HostLine> lines;
    for (auto& [key, line] : folded) {
      std::sort(line.ranks.begin(), line.ranks.end());
      line.rate /= static_cast<double>(line.ranks.size());
      lines.push_back(std::move(line));
    }
    std::stable_sort(lines.begin(), lines.end(),
                     [](const HostLine& one, const HostLine& other) { return one.ranks[0] < other.ranks[0]; });
    return lines;
  }

 private:
  double elapsed() const { return std::max(1e-3, job_.now - before_->now); }

  std::map<std::pair<std::string, int>, std::int64_t> counts_before() const {
    std::map<std::pair<std::string, int>, std::int64_t> counts;
    if (before_ == nullptr) return counts;
    const std::vector<Doing> doings = doings_of(*before_);
    for (std::size_t i = 0; i < doings.size(); ++i)
      counts[{before_->processes[i].host, before_->processes[i].pid}] = doings[i].done;
    return counts;
  }

  HostLine line_of(const ProcessFacts& process, const Doing& doing) const {
    HostLine line;
    line.host = process.host.empty() ? "?" : process.host;
    line.state = doing.is_broken && process.state == ProcessState::running ? "broken" : word_of(process.state);
    if (process.state != ProcessState::running && process.state != ProcessState::ended) line.color = Color::yellow;
    if (process.state == ProcessState::killed || process.state == ProcessState::stopped || doing.is_broken)
      line.color = Color::red;
    // Of one that is out of sight nobody knows what it does now.
    if (process.state != ProcessState::running && process.state != ProcessState::stopped) return line;
    const UnderWay* const longest = doing.longest();
    if (longest == nullptr) return line;
    line.operation = longest->title();
    line.seconds = std::max(0.0, job_.now - longest->entered());
    if (longest->operation->awaited >= 0) line.waits_for = awaited_text(*longest);
    return line;
  }

  /// The rank as the job numbers it, and where it runs.
  std::string awaited_text(const UnderWay& under_way) const {
    const int awaited = under_way.operation->awaited;
    const MemberFacts* const member = find_member(*under_way.communicator, awaited);
    if (member == nullptr || member->process < 0) return fmt::format("rank {} of it", awaited);
    const ProcessFacts& process = job_.processes[static_cast<std::size_t>(member->process)];
    return fmt::format("rank {} ({})", process.rank, process.host);
  }

  const Telemetry& job_;
  const Telemetry* before_;
};

std::size_t hosts_in(const Telemetry& job) {
  std::vector<std::string> hosts;
  for (const ProcessFacts& process : job.processes) hosts.push_back(process.host);
  std::sort(hosts.begin(), hosts.end());
  return static_cast<std::size_t>(std::unique(hosts.begin(), hosts.end()) - hosts.begin());
}

void add_job(const JudgedJob& job, const Telemetry* before, const StatusStyle& style, std::vector<std::string>& out) {
  const std::size_t hosts = hosts_in(job.telemetry), ranks = job.telemetry.processes.size();
  out.push_back(paint(fmt::format("{}, job {}: {} rank{} on {} host{}", job.telemetry.command,
                                  fmt::format("{:016x}", job.telemetry.job).substr(0, 8), ranks, ranks == 1 ? "" : "s",
                                  hosts, hosts == 1 ? "" : "s"),
                      Color::bold, style.color));
  Table table({{"host"}, {"ranks"}, {"state"}, {"operation"}, {"for", true}, {"waits for"}, {"done/s", true}});
  std::vector<HostLine> lines = JobLines(job.telemetry, before).lines();
  const std::size_t shown = style.all ? lines.size() : std::min(lines.size(), kUnfolded);
  // What is remarkable comes first where not all is shown.
  if (shown < lines.size())
    std::stable_partition(lines.begin(), lines.end(), [](const HostLine& each) { return each.color.has_value(); });
  for (std::size_t i = 0; i < shown; ++i) {
    const HostLine& line = lines[i];
    table.add({line.host, diagnosis::ranges_of(line.ranks), line.state, line.operation,
               line.operation.empty() ? "" : diagnosis::lasting(line.seconds), line.waits_for,
               before == nullptr ? "" : fmt::format("{:.1f}", line.rate)},
              line.color);
  }
  for (std::string& line : table.lines("  ", style.color)) out.push_back(std::move(line));
  if (shown < lines.size()) out.push_back(fmt::format("  and {} lines more (--all)", lines.size() - shown));
  for (const diagnosis::Verdict& verdict : job.verdicts)
    out.push_back(paint(fmt::format("  {}: {}", name_of(verdict.fault), verdict.text), Color::red, style.color));
}

void add_agents(const Json& hosts, const StatusStyle& style, std::vector<std::string>& out) {
  out.push_back(paint(fmt::format("{} agent{}", hosts.size(), hosts.size() == 1 ? "" : "s"), Color::bold, style.color));
  Table table({{"host"}, {"state"}, {"heard", true}, {"jobs", true}});
  std::size_t folded = 0;
  for (const Json& host : hosts) {
    const bool answers = host.value("answers", false);
    // Those that answer are of no interest where there are many.
    if (answers && !style.all && hosts.size() > kUnfolded) {
      ++folded;
      continue;
    }
    table.add({host.value("host", ""), answers ? "answers" : "does not answer",
               fmt::format("{} ago", diagnosis::lasting(host.value("heard_seconds_ago", 0.0))),
               std::to_string(host.value("jobs", Json::array()).size())},
              answers ? std::nullopt : std::optional(Color::yellow));
  }
  for (std::string& line : table.lines("  ", style.color)) out.push_back(std::move(line));
  if (folded > 0) out.push_back(fmt::format("  {} answer (--all)", folded));
}

Json process_json(const ProcessFacts& process, const Doing& doing, double now) {
  Json operations = Json::array();
  for (const UnderWay& each : doing.operations) {
    const int awaited = each.operation->awaited;
    operations.push_back({{"communicator", fmt::format("{:016x}", each.communicator->id)},
                          {"name", each.communicator->name},
                          {"operation", diagnosis::title_of(each.operation->call)},
                          {"seconds", std::max(0.0, now - each.entered())},
                          {"awaited", awaited < 0 ? Json(nullptr) : Json(awaited)}});
  }
  return {{"rank", process.rank < 0 ? Json(nullptr) : Json(process.rank)},
          {"pid", process.pid == 0 ? Json(nullptr) : Json(process.pid)},
          {"host", process.host},
          {"state", diagnosis::name_of(process.state)},
          {"broken", doing.is_broken},
          {"operations_done", doing.done},
          {"operations", operations}};
}

}  // namespace

JudgedCluster::JudgedCluster(CollectorAnswer answer)
    : hosts(std::move(answer.hosts)), jobs(diagnosis::judge(std::move(answer.jobs))) {}

bool JudgedCluster::is_wrong() const {
  return std::any_of(jobs.begin(), jobs.end(), [](const JudgedJob& job) { return !job.verdicts.empty(); });
}

std::vector<std::string> cluster_lines(const JudgedCluster& cluster, const JudgedCluster* before,
                                       const StatusStyle& style) {
  std::vector<std::string> lines;
  for (const JudgedJob& job : cluster.jobs) {
    const Telemetry* earlier = nullptr;
    if (before != nullptr)
      for (const JudgedJob& each : before->jobs)
        if (each.telemetry.job == job.telemetry.job) earlier = &each.telemetry;
    add_job(job, earlier, style, lines);
    lines.emplace_back();
  }
  add_agents(cluster.hosts, style, lines);
  return lines;
}

Json cluster_json(const JudgedCluster& cluster) {
  Json jobs = Json::array();
  for (const JudgedJob& job : cluster.jobs) {
    const std::vector<Doing> doings = doings_of(job.telemetry);
    Json processes = Json::array(), verdicts = Json::array();
    for (std::size_t i = 0; i < doings.size(); ++i)
      processes.push_back(process_json(job.telemetry.processes[i], doings[i], job.telemetry.now));
    for (const diagnosis::Verdict& each : job.verdicts)
      verdicts.push_back(json_of(each, job.telemetry.realtime_offset));
    jobs.push_back({{"id", fmt::format("{:016x}", job.telemetry.job)},
                    {"command", job.telemetry.command},
                    {"time", job.telemetry.now + job.telemetry.realtime_offset},
                    {"processes", processes},
                    {"verdicts", verdicts}});
  }
  return {{"version", 1}, {"ok", !cluster.is_wrong()}, {"agents", cluster.hosts}, {"jobs", jobs}};
}

}  // namespace tutti::cli
