#include "diagnosis/merge/merge_telemetry.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "diagnosis/merge/stretches.hpp"

namespace tutti::diagnosis {
namespace {

/// A host of the job that is merged.
struct PartOfJob {
  const HostTelemetry* host = nullptr;
  std::vector<int> places;  // of its processes among those of the job
  std::vector<bool> own;    // whether this host is the one that knows most of a process
};

/// A communicator as several hosts know it.
struct KnownCommunicator {
  CommunicatorFacts facts;
  const CommunicatorFacts* rhythm_from = nullptr;
  bool rhythm_is_heard = false;
  std::vector<const CommunicatorFacts*> heard;  // of hosts that answer and have members in it
  std::size_t heard_members = 0;                // that these have
  std::vector<WaitFacts> waits;                 // as the hosts tell them
};

/// Puts together who waits for whom. In sends and receives each rank knows its own waits: those of all are needed. Of
/// collectives, a host with a part of the ranks compares these with one another only.
void merge_waits(KnownCommunicator& known) {
  CommunicatorFacts& facts = known.facts;
  bool all_know = known.heard_members == static_cast<std::size_t>(facts.size);
  for (const CommunicatorFacts* each : known.heard) {
    facts.exchanges = facts.exchanges || each->exchanges;
    all_know = all_know && each->exchanges && !each->learning;
  }
  facts.learning = facts.exchanges && !all_know;
  if (facts.learning) return;
  facts.waits = facts.exchanges || known.heard.size() == 1 ? std::move(known.waits) : waits_across(known.heard);
}

bool is_alive(ProcessState state) { return state == ProcessState::running || state == ProcessState::stopped; }

/// Adds what another host knows of a meeting. Who is missing says the host at which ranks meet, if it is known.
void join(const GatheringFacts& from, GatheringFacts& known) {
  known.began = std::min(known.began, from.began);
  known.waiting.insert(known.waiting.end(), from.waiting.begin(), from.waiting.end());
  if (known.whole) return;
  if (from.whole) {
    known.whole = true;
    known.joined = from.joined;
    return;
  }
  std::vector<int> joined;
  std::set_union(known.joined.begin(), known.joined.end(), from.joined.begin(), from.joined.end(),
                 std::back_inserter(joined));
  known.joined = std::move(joined);
}

using ProcessName = std::tuple<std::string, int, int>;  // host, pid and rank

class JobMerge {
 public:
  explicit JobMerge(std::span<const HostTelemetry* const> hosts) {
    for (const HostTelemetry* host : hosts) parts_.push_back({host, {}, {}});
    // Whatever order hosts come in: where either of two is as likely, verdicts name the one that comes first.
    std::stable_sort(parts_.begin(), parts_.end(), [](const PartOfJob& one, const PartOfJob& other) {
      return first_rank(*one.host) < first_rank(*other.host);
    });
  }

  Telemetry merge();

 private:
  void set_head();
  void claim_processes(const PartOfJob& part);
  void seat_processes(PartOfJob& part);
  void find_elsewhere(PartOfJob& part);
  void add_communicators(const PartOfJob& part);
  void add_members(const PartOfJob& part, const CommunicatorFacts& from, KnownCommunicator& known);
  void seat(const MemberFacts& member, CommunicatorFacts& facts);
  void add_gatherings(const PartOfJob& part);
  void add_transfers(const PartOfJob& part);
  void add_corruptions(const PartOfJob& part);
  void finish_communicators();

  static int first_rank(const HostTelemetry& host);
  static ProcessName name_of(const ProcessFacts& process) { return {process.host, process.pid, process.rank}; }
  static double shift(const PartOfJob& part, double moment) { return moment == 0 ? 0 : moment + part.host->offset; }
  static int place_of(const PartOfJob& part, int process) {
    return process < 0 ? -1 : part.places[static_cast<std::size_t>(process)];
  }
  static bool owns(const PartOfJob& part, int process) {
    return process >= 0 && part.own[static_cast<std::size_t>(process)];
  }

  std::vector<PartOfJob> parts_;
  Telemetry job_;
  std::map<ProcessName, const HostTelemetry*> owners_;  // who knows most of each process
  std::map<ProcessName, int> seated_;
  std::map<int, int> by_rank_;
  std::map<std::uint64_t, KnownCommunicator> communicators_;
  std::map<int, double> best_rates_;  // of each path, over all hosts
};

Telemetry JobMerge::merge() {
  set_head();
  for (const PartOfJob& part : parts_) claim_processes(part);
  for (PartOfJob& part : parts_) seat_processes(part);
  for (PartOfJob& part : parts_) find_elsewhere(part);
  for (const PartOfJob& part : parts_) {
    add_communicators(part);
    add_gatherings(part);
    add_transfers(part);
    add_corruptions(part);
  }
  finish_communicators();
  return std::move(job_);
}

/// Of the processes of a host itself.
int JobMerge::first_rank(const HostTelemetry& host) {
  int first = std::numeric_limits<int>::max();
  for (const ProcessFacts& process : host.telemetry->processes)
    if (process.state != ProcessState::elsewhere && process.rank >= 0) first = std::min(first, process.rank);
  return first;
}

void JobMerge::set_head() {
  const auto first_heard =
      std::find_if(parts_.begin(), parts_.end(), [](const PartOfJob& part) { return part.host->heard; });
  const bool any_heard = first_heard != parts_.end();
  const HostTelemetry& first = any_heard ? *first_heard->host : *parts_.front().host;
  job_.job = first.telemetry->job;
  job_.realtime_offset = first.telemetry->realtime_offset - first.offset;
  job_.window = first.telemetry->window;
  for (const PartOfJob& part : parts_) {
    const Telemetry& telemetry = *part.host->telemetry;
    if (job_.command.empty()) job_.command = telemetry.command;
    job_.past.insert(job_.past.end(), telemetry.past.begin(), telemetry.past.end());
    for (const PathFacts& path : telemetry.paths)
      best_rates_[path.path] = std::max(best_rates_[path.path], path.best_rate);
    if (part.host->heard != any_heard) continue;
    const double now = part.host->now + part.host->offset;
    // Of a job of which nobody answers, the latest that was heard.
    if (job_.now == 0 || (any_heard ? now < job_.now : now > job_.now)) job_.now = now;
    job_.window = std::min(job_.window, telemetry.window);
  }
}

/// Two agents of a host may tell of one process: the one that answers counts.
void JobMerge::claim_processes(const PartOfJob& part) {
  for (const ProcessFacts& process : part.host->telemetry->processes) {
    if (process.state == ProcessState::elsewhere) continue;
    const auto [owner, is_new] = owners_.try_emplace(name_of(process), part.host);
    if (!is_new && !owner->second->heard && part.host->heard) owner->second = part.host;
  }
}

/// Takes over the processes of the host itself.
void JobMerge::seat_processes(PartOfJob& part) {
  const auto& processes = part.host->telemetry->processes;
  part.places.assign(processes.size(), -1);
  part.own.assign(processes.size(), false);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].state == ProcessState::elsewhere || owners_[name_of(processes[i])] != part.host) continue;
    const int next = static_cast<int>(job_.processes.size());
    part.places[i] = next;
    part.own[i] = true;
    seated_[name_of(processes[i])] = next;
    ProcessFacts process = processes[i];
    process.since = shift(part, process.since);
    if (!part.host->heard && is_alive(process.state)) {
      process.state = ProcessState::unreachable;
      process.since = 0;
      process.starved = 0;
    }
    if (process.rank >= 0) {
      const auto [by_rank, is_first] = by_rank_.try_emplace(process.rank, next);
      // Of two that claim a rank, the one that lives.
      if (!is_first && is_alive(process.state)) by_rank->second = next;
    }
    job_.processes.push_back(std::move(process));
  }
}

/// Finds the processes of other hosts, or adds them where no host knows them.
void JobMerge::find_elsewhere(PartOfJob& part) {
  const auto& processes = part.host->telemetry->processes;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (part.places[i] >= 0) continue;
    if (processes[i].state != ProcessState::elsewhere) {
      part.places[i] = seated_[name_of(processes[i])];
      continue;
    }
    const int next = static_cast<int>(job_.processes.size());
    const auto [place, is_new] = by_rank_.try_emplace(processes[i].rank, next);
    part.places[i] = place->second;
    if (is_new) job_.processes.push_back(processes[i]);
  }
}

void JobMerge::add_communicators(const PartOfJob& part) {
  for (const CommunicatorFacts& from : part.host->telemetry->communicators) {
    KnownCommunicator& known = communicators_[from.id];
    if (known.facts.size == 0) {
      known.facts.id = from.id;
      known.facts.size = from.size;
    }
    if (from.size != known.facts.size) continue;  // what contradicts the others is not one of it
    if (known.facts.name.empty()) known.facts.name = from.name;
    const bool knows_more =
        known.rhythm_from == nullptr ||
        (part.host->heard == known.rhythm_is_heard && from.rhythm.operations > known.rhythm_from->rhythm.operations);
    if (knows_more) {
      known.rhythm_from = &from;
      known.rhythm_is_heard = part.host->heard;
    }
    add_members(part, from, known);
  }
}

void JobMerge::add_members(const PartOfJob& part, const CommunicatorFacts& from, KnownCommunicator& known) {
  std::set<int> own;  // ranks
  for (const MemberFacts& each : from.members) {
    if (!owns(part, each.process)) continue;
    own.insert(each.rank);
    MemberFacts member = each;
    member.process = place_of(part, each.process);
    member.done_at = shift(part, each.done_at);
    for (OperationFacts& operation : member.operations) {
      operation.entered = shift(part, operation.entered);
      operation.moved = shift(part, operation.moved);
    }
    seat(member, known.facts);
  }
  if (own.empty()) return;
  for (const FlowFacts& flow : from.flows)
    if (own.contains(flow.source)) known.facts.flows.push_back(flow);
  if (!part.host->heard) return;
  known.heard.push_back(&from);
  known.heard_members += own.size();
  for (const WaitFacts& wait : from.waits)
    if (own.contains(wait.waiter)) known.waits.push_back(wait);
}

/// Of two processes that claim a rank, the one that lives; of two that do not, the first.
void JobMerge::seat(const MemberFacts& member, CommunicatorFacts& facts) {
  auto& members = facts.members;
  const auto place = std::lower_bound(members.begin(), members.end(), member.rank,
                                      [](const MemberFacts& each, int rank) { return each.rank < rank; });
  if (place == members.end() || place->rank != member.rank)
    members.insert(place, member);
  else if (is_alive(job_.processes[static_cast<std::size_t>(member.process)].state))
    *place = member;
}

void JobMerge::add_gatherings(const PartOfJob& part) {
  for (const GatheringFacts& told : part.host->telemetry->gatherings) {
    GatheringFacts from = told;
    from.began = shift(part, told.began);
    for (WaitingRankFacts& each : from.waiting) each.process = place_of(part, each.process);
    const auto known = std::find_if(job_.gatherings.begin(), job_.gatherings.end(),
                                    [&](const GatheringFacts& each) { return each.key == from.key; });
    if (known == job_.gatherings.end())
      job_.gatherings.push_back(std::move(from));
    else if (known->size == from.size)
      join(from, *known);
  }
}

/// Lanes and delays, as the end that sends knows them. Delays are told relative to the best pace that the host has seen
/// on the path, and become relative to the best of all hosts.
void JobMerge::add_transfers(const PartOfJob& part) {
  const Telemetry& telemetry = *part.host->telemetry;
  if (!part.host->heard) return;
  for (const LaneFacts& from : telemetry.lanes) {
    if (!owns(part, from.process)) continue;
    LaneFacts lane = from;
    lane.process = place_of(part, from.process);
    lane.peer = place_of(part, from.peer);
    lane.since = shift(part, from.since);
    job_.lanes.push_back(std::move(lane));
  }
  std::map<int, double> factors;
  for (const PathFacts& path : telemetry.paths)
    if (path.best_rate > 0) factors[path.path] = best_rates_[path.path] / path.best_rate;
  for (const DelayFacts& from : telemetry.delays) {
    if (!owns(part, from.source)) continue;
    DelayFacts delay = from;
    delay.source = place_of(part, from.source);
    delay.destination = place_of(part, from.destination);
    if (const auto factor = factors.find(from.path); factor != factors.end()) delay.relative *= factor->second;
    job_.delays.push_back(delay);
  }
}

/// Both ends may have told of the same chunks.
void JobMerge::add_corruptions(const PartOfJob& part) {
  for (const CorruptionFacts& from : part.host->telemetry->corruptions) {
    CorruptionFacts corruption = from;
    corruption.source = place_of(part, from.source);
    corruption.destination = place_of(part, from.destination);
    const auto known = std::find_if(job_.corruptions.begin(), job_.corruptions.end(), [&](const CorruptionFacts& each) {
      return each.source == corruption.source && each.destination == corruption.destination &&
             each.path == corruption.path;
    });
    if (known == job_.corruptions.end())
      job_.corruptions.push_back(corruption);
    else
      known->chunks = std::max(known->chunks, corruption.chunks);
  }
}

void JobMerge::finish_communicators() {
  for (auto& [id, known] : communicators_) {
    known.facts.rhythm = known.rhythm_from->rhythm;
    known.facts.sites = known.rhythm_from->sites;
    known.facts.traffic = known.rhythm_from->traffic;
    merge_waits(known);
    job_.communicators.push_back(std::move(known.facts));
  }
  for (const auto& [path, rate] : best_rates_) job_.paths.push_back({path, rate});
}

}  // namespace

std::vector<Telemetry> merge_telemetry(std::span<const HostTelemetry> hosts) {
  std::map<std::uint64_t, std::vector<const HostTelemetry*>> jobs;
  for (const HostTelemetry& host : hosts) jobs[host.telemetry->job].push_back(&host);
  std::vector<Telemetry> merged;
  merged.reserve(jobs.size());
  for (const auto& [job, parts] : jobs) merged.push_back(JobMerge(parts).merge());
  return merged;
}

}  // namespace tutti::diagnosis
