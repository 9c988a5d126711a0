#include "diagnosis/merge/cut_job_test_kit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace tutti::diagnosis {
namespace {

constexpr double kBestRate = 1e9;  // bytes per second, of every path
constexpr int kPaths = 8;          // as many as a SyntheticJob has
constexpr std::size_t kStretches = 4;
constexpr std::uint32_t kStretch = 1'000'000;  // microseconds

class HostPart {
 public:
  HostPart(const Telemetry& job, std::string host, double clock, double pace)
      : job_(job), host_(std::move(host)), clock_(clock), pace_(pace) {}

  Telemetry cut() {
    part_.job = job_.job;
    part_.command = job_.command;
    part_.now = shift(job_.now);
    part_.realtime_offset = job_.realtime_offset - clock_;
    part_.window = job_.window;
    part_.gatherings = job_.gatherings;
    for (GatheringFacts& each : part_.gatherings) each.waiting.clear();
    for (GatheringFacts& each : part_.gatherings) each.began = shift(each.began);
    for (std::size_t i = 0; i < job_.processes.size(); ++i)
      if (is_here(static_cast<int>(i))) add_process(static_cast<int>(i));
    for (const CommunicatorFacts& each : job_.communicators) add_communicator(each);
    add_transfers();
    // Faults are known to all: only one of the hosts is to tell of them.
    if (!job_.processes.empty() && host_ == job_.processes.front().host) part_.past = job_.past;
    return std::move(part_);
  }

 private:
  double shift(double moment) const { return moment == 0 ? 0 : moment + clock_; }
  bool is_here(int process) const {
    return process >= 0 && job_.processes[static_cast<std::size_t>(process)].host == host_;
  }
  void add_process(int process) {
    places_[process] = static_cast<int>(part_.processes.size());
    part_.processes.push_back(job_.processes[static_cast<std::size_t>(process)]);
    ProcessFacts& added = part_.processes.back();
    added.since = shift(added.since);
  }
  /// Its place, also where it is elsewhere.
  int place_of(int process) {
    if (process < 0) return -1;
    const auto [place, is_new] = places_.try_emplace(process, static_cast<int>(part_.processes.size()));
    if (is_new) {
      ProcessFacts& elsewhere = part_.processes.emplace_back();
      elsewhere.rank = job_.processes[static_cast<std::size_t>(process)].rank;
      elsewhere.state = ProcessState::elsewhere;
    }
    return place->second;
  }

  void add_communicator(const CommunicatorFacts& whole);
  void add_waits(const CommunicatorFacts& whole, CommunicatorFacts& part) const;
  void add_transfers();

  const Telemetry& job_;
  std::string host_;
  double clock_, pace_;
  Telemetry part_;
  std::map<int, int> places_;
};

void HostPart::add_communicator(const CommunicatorFacts& whole) {
  CommunicatorFacts part = whole;
  std::erase_if(part.members, [&](const MemberFacts& each) { return !is_here(each.process); });
  if (part.members.empty()) return;
  const auto is_member = [&](int rank) {
    return std::any_of(part.members.begin(), part.members.end(),
                       [&](const MemberFacts& each) { return each.rank == rank; });
  };
  for (MemberFacts& member : part.members) {
    member.process = place_of(member.process);
    member.done_at = shift(member.done_at);
    for (OperationFacts& operation : member.operations) {
      operation.entered = shift(operation.entered);
      operation.moved = shift(operation.moved);
    }
  }
  std::erase_if(part.flows, [&](const FlowFacts& each) { return !is_member(each.source); });
  if (static_cast<int>(part.members.size()) < whole.size) add_waits(whole, part);
  part_.communicators.push_back(std::move(part));
}

/// Every member is in each stretch for as long as it waits, and a while besides that is the same for all.
void HostPart::add_waits(const CommunicatorFacts& whole, CommunicatorFacts& part) const {
  part.waits.clear();
  if (whole.waits.empty()) return;
  part.stretch_length = 8;
  part.first_stretch = 100;
  part.stretches.assign(kStretches, kStretch);
  for (const MemberFacts& member : part.members) {
    double share = 0.05;
    for (const WaitFacts& wait : whole.waits)
      if (wait.waiter == member.rank) share += wait.share;
    const auto stay = static_cast<std::uint32_t>(std::lround(share * kStretch));
    part.stays.push_back({member.rank, std::vector<std::uint32_t>(kStretches, stay)});
  }
}

void HostPart::add_transfers() {
  for (int path = 0; path < kPaths; ++path) part_.paths.push_back({path, pace_ * kBestRate});
  for (DelayFacts delay : job_.delays) {
    if (!is_here(delay.source)) continue;
    delay.source = place_of(delay.source);
    delay.destination = place_of(delay.destination);
    delay.relative *= pace_;
    part_.delays.push_back(delay);
  }
  for (LaneFacts lane : job_.lanes) {
    if (!is_here(lane.process)) continue;
    lane.process = place_of(lane.process);
    lane.peer = place_of(lane.peer);
    lane.since = shift(lane.since);
    part_.lanes.push_back(lane);
  }
  for (CorruptionFacts corruption : job_.corruptions) {
    if (!is_here(corruption.destination)) continue;
    corruption.source = place_of(corruption.source);
    corruption.destination = place_of(corruption.destination);
    part_.corruptions.push_back(corruption);
  }
}

}  // namespace

Telemetry part_of_host(const Telemetry& job, const std::string& host, double clock, double pace) {
  return HostPart(job, host, clock, pace).cut();
}

std::vector<std::string> hosts_of(const Telemetry& job) {
  std::vector<std::string> hosts;
  for (const ProcessFacts& process : job.processes)
    if (hosts.empty() || hosts.back() != process.host) hosts.push_back(process.host);
  return hosts;
}

}  // namespace tutti::diagnosis
