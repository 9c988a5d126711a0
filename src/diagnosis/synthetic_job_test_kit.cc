#include "diagnosis/synthetic_job_test_kit.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tutti::diagnosis {
namespace {

constexpr int kServerCalls = 4;           // of a step
constexpr int kAcross = kServerCalls;     // the position of the operation across servers
constexpr int kAfter = kServerCalls + 1;  // the first of the next step
constexpr std::uint32_t kStep = 500;      // the step that all are in
constexpr double kNow = 1e5;
constexpr double kPeriod = 1.0;
constexpr double kNoise = 0.02;   // of delays, as a share; with the heavier tails of Student's t
constexpr double kTails = 6;      // its degrees of freedom
constexpr double kJitter = 0.01;  // of waits, as a share of the time
constexpr double kHung = 90;      // seconds, longer than any pause of these jobs
constexpr std::uint32_t kServerSignature = 11, kAcrossSignature = 22, kWrongSignature = 33;

bool stops_a_rank(FaultClass fault) {
  return fault == FaultClass::crashed || fault == FaultClass::frozen || fault == FaultClass::not_entered ||
         fault == FaultClass::mismatched_call || fault == FaultClass::repeated;
}

bool halts_the_job(FaultClass fault) {
  return stops_a_rank(fault) || fault == FaultClass::deadlocked || fault == FaultClass::transfer_stuck;
}

/// The number of the operation at a position of the step, in its communicator.
std::uint32_t number_at(int position) {
  if (position == kAcross) return kStep;
  return kStep * kServerCalls + static_cast<std::uint32_t>(position > kAcross ? position - 1 : position);
}

CallFacts call_at(int position) {
  CallFacts call;
  call.number = number_at(position);
  call.collective = Collective::all_reduce;
  call.type = DataType::bfloat16;
  call.op = Operator::sum;
  call.bytes = position == kAcross ? 1 << 26 : 1 << 22;
  call.signature = position == kAcross ? kAcrossSignature : kServerSignature;
  return call;
}

}  // namespace

bool is_met(const ExpectedVerdict& expected, const Verdict& verdict) {
  if (verdict.fault != expected.fault) return false;
  if (expected.processes.empty() && expected.path < 0) return true;
  if (verdict.suspects.empty()) return false;
  const Suspect& first = verdict.suspects.front();
  if (expected.path >= 0 && first.path != expected.path) return false;
  if (expected.peer >= 0 && first.peer != expected.peer) return false;
  return expected.processes.empty() ||
         std::find(expected.processes.begin(), expected.processes.end(), first.process) != expected.processes.end();
}

bool SyntheticJob::go_together(FaultClass one, FaultClass other) {
  if (one == FaultClass::missing_at_start || other == FaultClass::missing_at_start) return one != other;
  if (!halts_the_job(one) || !halts_the_job(other)) return true;
  return stops_a_rank(one) && stops_a_rank(other);
}

SyntheticJob::SyntheticJob(int ranks, std::uint64_t seed)
    : ranks_(ranks),
      random_(seed),
      halts_(static_cast<std::size_t>(ranks)),
      used_(static_cast<std::size_t>(servers())),
      position_(draw(kServerCalls)) {
  telemetry_.now = kNow;
  telemetry_.window = 30;
  for (int rank = 0; rank < ranks; ++rank) {
    ProcessFacts process;
    process.rank = rank;
    process.pid = 1000 + rank;
    process.host = fmt::format("node{}", rank / kPerServer);
    process.starved = draw(0.0, 0.02);
    telemetry_.processes.push_back(std::move(process));
  }
  add_communicators();
  add_delays();
  add_waits();
}

int SyntheticJob::draw_server() {
  int server = 0;
  do server = draw(servers());
  while (used_[static_cast<std::size_t>(server)]);
  used_[static_cast<std::size_t>(server)] = true;
  return server;
}

/// First those of the servers, in order, then those across.
void SyntheticJob::add_communicators() {
  const bool checkpoints = draw(2) == 0;
  const auto add = [&](std::string name, int size, bool across) -> CommunicatorFacts& {
    CommunicatorFacts communicator;
    communicator.id = telemetry_.communicators.size() + 1;
    communicator.name = std::move(name);
    communicator.size = size;
    communicator.rhythm = {256, across ? 1 : kServerCalls, kPeriod, 0.01 * kPeriod, checkpoints ? 20.0 : 0.9 * kPeriod};
    communicator.sites = {{across ? kAcrossSignature : kServerSignature, 0.1, 0.01}};
    communicator.members.resize(static_cast<std::size_t>(size));
    telemetry_.communicators.push_back(std::move(communicator));
    return telemetry_.communicators.back();
  };
  for (int server = 0; server < servers(); ++server) {
    auto& members = add(fmt::format("tp{}", server), kPerServer, false).members;
    for (int i = 0; i < kPerServer; ++i) {
      members[static_cast<std::size_t>(i)].rank = i;
      members[static_cast<std::size_t>(i)].process = server * kPerServer + i;
    }
  }
  for (int lane = 0; lane < kPerServer; ++lane) {
    auto& members = add(fmt::format("dp{}", lane), servers(), true).members;
    for (int server = 0; server < servers(); ++server) {
      members[static_cast<std::size_t>(server)].rank = server;
      members[static_cast<std::size_t>(server)].process = server * kPerServer + lane;
    }
  }
}

/// Two rings across servers, each on two paths between its neighbours, and neighbours within servers.
void SyntheticJob::add_delays() {
  std::student_t_distribution<double> noise(kTails);
  const int stride = servers() / 2 - 1;
  for (int rank = 0; rank < ranks_; ++rank) {
    const int server = rank / kPerServer, lane = rank % kPerServer;
    for (const int hop : {1, stride}) {
      const int to = (server + hop) % servers() * kPerServer + lane;
      const int first = draw(kPaths);
      for (const int path : {first, (first + 1 + draw(kPaths - 1)) % kPaths})
        telemetry_.delays.push_back({rank, to, path, false, 1.3 * std::exp(kNoise * noise(random_))});
    }
    for (const int hop : {1, 3})
      telemetry_.delays.push_back(
          {rank, server * kPerServer + (lane + hop) % kPerServer, 0, true, 0.2 * std::exp(kNoise * noise(random_))});
  }
}

void SyntheticJob::add_waits() {
  std::normal_distribution<double> jitter(kJitter, 0.3 * kJitter);
  for (CommunicatorFacts& communicator : telemetry_.communicators)
    for (int waiter = 0; waiter < communicator.size; ++waiter) {
      const double share = std::abs(jitter(random_));
      communicator.waits.push_back(
          {waiter, (waiter + 1 + draw(communicator.size - 1)) % communicator.size, share * 30, share});
    }
}

void SyntheticJob::inject(FaultClass fault, double severity) {
  hangs_ = hangs_ || halts_the_job(fault);
  switch (fault) {
    case FaultClass::crashed:
    case FaultClass::frozen:
    case FaultClass::not_entered:
    case FaultClass::mismatched_call:
    case FaultClass::repeated:
      return inject_stop(fault);
    case FaultClass::missing_at_start: {
      GatheringFacts gathering;
      gathering.name = "world";
      gathering.size = 64;
      gathering.began = kNow - kHung;
      for (int i = 0; i < 63; ++i) gathering.joined.push_back(i);
      telemetry_.gatherings.push_back(gathering);
      expected_.push_back({fault, {-1}, -1, -1});
      return;
    }
    case FaultClass::transfer_stuck: {
      stuck_lane_ = draw(kPerServer);
      stuck_member_ = static_cast<std::size_t>(draw_server());
      const auto next = (static_cast<int>(stuck_member_) + 1) % servers();
      expected_.push_back(
          {fault, {static_cast<int>(stuck_member_) * kPerServer + stuck_lane_}, next * kPerServer + stuck_lane_, -1});
      return;
    }
    case FaultClass::deadlocked:
      return inject_deadlock();
    case FaultClass::slow_link:
    case FaultClass::slow_sender:
    case FaultClass::slow_receiver:
    case FaultClass::slow_path:
      return inject_slow(fault, 1.1 + 2 * severity);
    case FaultClass::straggler: {
      const int rank = draw_rank();
      inject_straggler(rank, 0.1 + 0.4 * severity);
      expected_.push_back({fault, {rank}, -1, -1});
      return;
    }
    case FaultClass::starved: {
      const int rank = draw_rank();
      telemetry_.processes[static_cast<std::size_t>(rank)].starved = 0.3 + 0.6 * severity;
      inject_straggler(rank, 0.1 + 0.4 * severity);
      slow_down(rank, -1, -1, 1.2 + severity);
      slow_down(-1, rank, -1, 1.2 + severity);
      expected_.push_back({fault, {rank}, -1, -1});
      return;
    }
    case FaultClass::flapping:
    case FaultClass::path_down:
      return inject_lost_lane(fault);
    case FaultClass::unobserved:
      return inject_unobserved();
    case FaultClass::corrupted:
      return inject_corruption();
  }
}

void SyntheticJob::inject_stop(FaultClass fault) {
  const int rank = draw_rank();
  Halt& halt = halts_[static_cast<std::size_t>(rank)];
  halt.before = position_;
  ProcessFacts& process = telemetry_.processes[static_cast<std::size_t>(rank)];
  if (fault == FaultClass::crashed || fault == FaultClass::repeated) process.state = ProcessState::killed;
  if (fault == FaultClass::frozen) process.state = ProcessState::stopped;
  halt.wrong = fault == FaultClass::mismatched_call;
  if (fault == FaultClass::repeated) {
    telemetry_.past.push_back({FaultClass::crashed, process.host, rank, "", ""});
    expected_.push_back({FaultClass::crashed, {rank}, -1, -1});
  }
  expected_.push_back({fault, {rank}, -1, -1});
}

/// On two servers, one rank each goes across before its server is through.
void SyntheticJob::inject_deadlock() {
  const int one = draw_server(), other = draw_server();
  const int lane = draw(kPerServer), other_lane = (lane + 1 + draw(kPerServer - 1)) % kPerServer;
  position_ = kServerCalls - 1;
  for (const int rank : {one * kPerServer + lane, other * kPerServer + other_lane}) {
    halts_[static_cast<std::size_t>(rank)].before = position_;
    halts_[static_cast<std::size_t>(rank)].skips = true;
  }
  expected_.push_back({FaultClass::deadlocked,
                       {one * kPerServer + lane, one * kPerServer + other_lane, other * kPerServer + lane,
                        other * kPerServer + other_lane},
                       -1,
                       -1});
}

void SyntheticJob::slow_down(int source, int destination, int path, double factor) {
  for (DelayFacts& delay : telemetry_.delays)
    if (!delay.local && (source < 0 || delay.source == source) &&
        (destination < 0 || delay.destination == destination) && (path < 0 || delay.path == path))
      delay.relative *= factor;
}

DelayFacts& SyntheticJob::draw_network_delay() {
  const int rank = draw_rank();
  const auto first = static_cast<std::size_t>(rank) * 6;  // six for each rank, the first four across servers
  return telemetry_.delays[first + static_cast<std::size_t>(draw(4))];
}

void SyntheticJob::inject_slow(FaultClass fault, double factor) {
  const DelayFacts delay = draw_network_delay();
  if (fault == FaultClass::slow_link) {
    slow_down(delay.source, delay.destination, -1, factor);
    expected_.push_back({fault, {delay.source}, delay.destination, -1});
  } else if (fault == FaultClass::slow_sender) {
    slow_down(delay.source, -1, -1, factor);
    expected_.push_back({fault, {delay.source}, -1, -1});
  } else if (fault == FaultClass::slow_receiver) {
    slow_down(-1, delay.destination, -1, factor);
    expected_.push_back({fault, {delay.destination}, -1, -1});
  } else {
    slow_down(-1, -1, delay.path, factor);
    expected_.push_back({fault, {}, -1, delay.path});
  }
}

/// Its server waits for it, and then all others for its server.
void SyntheticJob::inject_straggler(int rank, double share) {
  const int server = rank / kPerServer;
  CommunicatorFacts& own = telemetry_.communicators[static_cast<std::size_t>(server)];
  for (int i = 0; i < kPerServer; ++i)
    if (i != rank % kPerServer) own.waits.push_back({i, rank % kPerServer, 30 * share, share});
  for (int i = 0; i < kPerServer; ++i) {
    const int lane = servers() + i;
    CommunicatorFacts& across = telemetry_.communicators[static_cast<std::size_t>(lane)];
    for (int other = 0; other < servers(); ++other)
      if (other != server) across.waits.push_back({other, server, 30 * share, share});
  }
}

void SyntheticJob::inject_lost_lane(FaultClass fault) {
  DelayFacts& delay = draw_network_delay();
  if (fault == FaultClass::flapping) delay.relative *= 2;
  for (const bool back : {false, true}) {
    LaneFacts lane;
    lane.process = back ? delay.destination : delay.source;
    lane.peer = back ? delay.source : delay.destination;
    lane.path = delay.path;
    lane.losses = fault == FaultClass::flapping ? 3 + draw(5) : 1;
    if (fault == FaultClass::path_down) lane.state = LaneFacts::State::down;
    lane.since = kNow - 1;
    telemetry_.lanes.push_back(lane);
  }
  expected_.push_back({fault, {delay.source, delay.destination}, -1, delay.path});
}

void SyntheticJob::inject_corruption() {
  const DelayFacts& delay = draw_network_delay();
  telemetry_.corruptions.push_back(
      {delay.source, delay.destination, delay.path, static_cast<std::uint64_t>(draw(9) + 1)});
  expected_.push_back({FaultClass::corrupted, {delay.source}, delay.destination, delay.path});
}

void SyntheticJob::inject_unobserved() {
  const int server = draw_server();
  for (int i = 0; i < kPerServer; ++i) {
    const int rank = server * kPerServer + i;
    telemetry_.processes[static_cast<std::size_t>(rank)].state = ProcessState::unreachable;
  }
  expected_.push_back({FaultClass::unobserved, {server * kPerServer}, -1, -1});
}

/// Members that have come to this position are in the operation; those that have gone on are through with it.
void SyntheticJob::enter(CommunicatorFacts& communicator, std::uint32_t number, const std::vector<int>& reached,
                         int position) {
  const double entered = hangs_ ? kNow - kHung : kNow - 0.02;
  for (MemberFacts& member : communicator.members) {
    const auto process = static_cast<std::size_t>(member.process);
    if (telemetry_.processes[process].state == ProcessState::unreachable) {
      member.last_done = number - 100;  // when it was heard of last
      continue;
    }
    const int at = reached[process];
    if (at > position) member.last_done = number;
    const bool early = halts_[process].skips && position == kAcross && at == halts_[process].before;
    if (at != position && !early) continue;
    if (halts_[process].before == position && !halts_[process].wrong) continue;
    OperationFacts operation;
    operation.call = call_at(position);
    if (halts_[process].wrong && halts_[process].before == position) {
      operation.call.signature = kWrongSignature;
      operation.call.bytes /= 2;
    }
    operation.entered = entered + draw(0.0, 0.01);
    operation.moved = operation.entered;
    operation.awaited = (member.rank + communicator.size - 1) % communicator.size;
    member.operations.push_back(operation);
  }
}

/// A ring in which one transfer does not move: those behind it have brought less the nearer they are.
void SyntheticJob::add_flows(CommunicatorFacts& communicator, std::uint32_t number, std::size_t stuck) {
  const std::size_t size = communicator.members.size();
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t behind = (i + size - stuck) % size;
    FlowFacts flow;
    flow.source = static_cast<int>(i);
    flow.destination = static_cast<int>((i + 1) % size);
    flow.operation = number;
    flow.done = 10 + std::min<std::size_t>(behind, 100);
    // Before it, senders have as much out as there is room for.
    flow.posted = flow.done + (behind == 0 || behind + 3 > size ? 8 : 0);
    flow.sent = flow.posted;
    communicator.flows.push_back(flow);
  }
}

/// Runs all ranks from the first operation of the step until each has come to one that does not end.
void SyntheticJob::run_step() {
  reached_.assign(static_cast<std::size_t>(ranks_), 0);
  for (std::size_t i = 0; i < halts_.size(); ++i) reached_[i] = std::max(0, halts_[i].before);
  for (int position = 0; position < kAfter; ++position) {
    const auto across = static_cast<std::size_t>(servers());
    const std::size_t end = position == kAcross ? telemetry_.communicators.size() : across;
    for (std::size_t c = position == kAcross ? across : 0; c < end; ++c) {
      if (position == kAcross && static_cast<int>(c - across) == stuck_lane_) continue;
      const auto& members = telemetry_.communicators[c].members;
      // Ranks that stop by themselves were put where they stop; they have been through what comes before.
      const bool ends = std::all_of(members.begin(), members.end(), [&](const MemberFacts& member) {
        const auto process = static_cast<std::size_t>(member.process);
        return halts_[process].before > position || (reached_[process] == position && halts_[process].before < 0);
      });
      if (!ends) continue;
      for (const MemberFacts& member : members)
        if (int& at = reached_[static_cast<std::size_t>(member.process)]; at == position) ++at;
    }
  }
}

Telemetry SyntheticJob::finish() {
  if (hangs_) {
    run_step();
  } else {
    reached_.assign(static_cast<std::size_t>(ranks_), 0);
    for (int rank = 0; rank < ranks_; ++rank) reached_[static_cast<std::size_t>(rank)] = (rank / kPerServer) % 3;
  }
  for (std::size_t c = 0; c < telemetry_.communicators.size(); ++c) {
    CommunicatorFacts& communicator = telemetry_.communicators[c];
    const bool across = static_cast<int>(c) >= servers();
    for (MemberFacts& member : communicator.members) {
      member.last_done = number_at(across ? kAcross : 0) - 1;
      member.done_at = hangs_ ? kNow - kHung - 0.1 : kNow - 0.1;
    }
    for (int position = 0; position <= kAfter; ++position)
      if ((position == kAcross) == across) enter(communicator, number_at(position), reached_, position);
    if (across && static_cast<int>(c) - servers() == stuck_lane_)
      add_flows(communicator, number_at(kAcross), stuck_member_);
  }
  return std::move(telemetry_);
}

}  // namespace tutti::diagnosis
