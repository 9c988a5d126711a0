// Plays the agents of a large job for a collector: one connection for each host, over which it sends what an agent of
// that host would, of a generated job. Prints a JSON line each second: connections, and bytes that were sent.
//
//   collector_feed HOST:PORT TOKEN RANKS still|moving|hung SECONDS
//
// still: nothing moves; moving: something has moved on each host at each look; hung: a rank has died and all others
// wait.
#include <fmt/core.h>
#include <poll.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "agent/report/collector_link.hpp"
#include "agent/report/host_reporter.hpp"
#include "diagnosis/merge/cut_job_test_kit.hpp"
#include "diagnosis/synthetic_job_test_kit.hpp"
#include "net/event_loop.hpp"

namespace tutti::bench {
namespace {

using agent::Frame;
using agent::FrameKind;
using diagnosis::Telemetry;

void shift(double& moment, double by) { moment += moment == 0 ? 0 : by; }

void shift_moments(Telemetry& telemetry, double by) {
  telemetry.now += by;
  for (diagnosis::CommunicatorFacts& communicator : telemetry.communicators) {
    communicator.first_stretch += 1;
    for (diagnosis::MemberFacts& member : communicator.members) {
      member.last_done += 1;
      shift(member.done_at, by);
      for (diagnosis::OperationFacts& operation : member.operations) {
        operation.call.number += 1;
        shift(operation.entered, by);
        shift(operation.moved, by);
      }
    }
  }
}

/// The agent of one host. Its clock is that of the job.
class FedAgent {
 public:
  FedAgent(Telemetry telemetry, HostPort where, const JobKey& key, bool moves)
      : telemetry_(std::move(telemetry)),
        moves_(moves),
        link_(std::move(where), key, {agent::Hello::Speaker::agent, telemetry_.processes.front().host, 1}, 1024,
              [this](const Frame& frame) { return take(frame); }) {}

  /// `clock`: of the job.
  std::size_t work(double now, double clock) {
    std::size_t sent = 0;
    link_.work(now);
    if (link_.is_connected() && now >= next_look_) {
      sent = look(clock);
      next_look_ = now + (incident_ ? 0.25 : 1.0);
      link_.work(now);
    }
    return sent;
  }
  int descriptor() const { return link_.descriptor(); }
  short events() const { return link_.events(); }
  bool is_connected() const { return link_.is_connected(); }
  void begin_at(double now) { next_look_ = now; }

 private:
  std::size_t look(double clock) {
    std::size_t sent = 0;
    if (moves_ && told_) shift_moments(telemetry_, clock - telemetry_.now);
    if (moves_ || !told_) {
      const std::string line = agent::summary_of(telemetry_);
      link_.push(FrameKind::telemetry, line);
      sent += line.size();
    }
    told_ = true;
    agent::LookMessage message;
    message.looked_at = clock;
    message.sent = static_cast<std::int64_t>(1e9 * clock);
    message.jobs = {telemetry_.job};
    const std::string payload = encode(message);
    link_.push(FrameKind::look, payload);
    return sent + payload.size();
  }
  Status take(const Frame& frame) {
    if (const auto pace = agent::decode_pace(frame.payload)) incident_ = pace->incident;
    return {};
  }

  Telemetry telemetry_;
  bool moves_, told_ = false, incident_ = false;
  double next_look_ = 0;
  agent::CollectorLink link_;
};

std::vector<std::unique_ptr<FedAgent>> make_agents(int ranks, bool hung, bool moves, const HostPort& where,
                                                   const JobKey& key) {
  diagnosis::SyntheticJob job(ranks, 1);
  if (hung) job.inject(diagnosis::FaultClass::crashed, 0.5);
  Telemetry whole = job.finish();
  // Between two operations, so that nobody is late for one.
  if (!hung && !moves)
    for (diagnosis::CommunicatorFacts& communicator : whole.communicators)
      for (diagnosis::MemberFacts& member : communicator.members) member.operations.clear();
  whole.job = 7;
  whole.command = "generated";
  std::vector<std::unique_ptr<FedAgent>> agents;
  for (Telemetry& part : cut_by_host(whole, [](std::size_t) { return 0.0; }))
    agents.push_back(std::make_unique<FedAgent>(std::move(part), where, key, moves));
  return agents;
}

void feed(std::vector<std::unique_ptr<FedAgent>>& agents, double job_now, double seconds) {
  const double begun = monotonic_seconds();
  // Looks of hosts are spread over a second.
  for (std::size_t i = 0; i < agents.size(); ++i)
    agents[i]->begin_at(begun + static_cast<double>(i) / static_cast<double>(agents.size()));
  std::vector<pollfd> entries(agents.size());
  std::size_t sent = 0;
  double next_line = begun + 1;
  while (monotonic_seconds() < begun + seconds) {
    std::size_t connected = 0;
    for (std::size_t i = 0; i < agents.size(); ++i) {
      const double now = monotonic_seconds();
      sent += agents[i]->work(now, job_now + now - begun);
      entries[i] = {agents[i]->descriptor(), agents[i]->events(), 0};
      connected += agents[i]->is_connected() ? 1 : 0;
    }
    if (monotonic_seconds() >= next_line) {
      fmt::print("{{\"connected\": {}, \"bytes\": {}}}\n", connected, sent);
      std::fflush(stdout);
      sent = 0;
      next_line += 1;
    }
    ::poll(entries.data(), entries.size(), 10);
  }
}

int run(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "collector_feed HOST:PORT TOKEN RANKS still|moving|hung SECONDS\n");
    return 2;
  }
  const auto where = parse_host_port(argv[1]);
  const std::string state = argv[4];
  const int ranks = std::atoi(argv[3]);
  if (!where || ranks < 64 || ranks % 64 != 0) {
    fmt::print(stderr, "expected HOST:PORT, not {}, and ranks in multiples of 64, not {}\n", argv[1], argv[3]);
    return 2;
  }
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    descriptors.rlim_cur = descriptors.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &descriptors);
  }
  constexpr double kJobNow = 1e5;  // of generated jobs
  auto agents = make_agents(ranks, state == "hung", state == "moving", *where, agent::key_of_token(argv[2], false));
  feed(agents, kJobNow, std::atof(argv[5]));
  return 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) { return tutti::bench::run(argc, argv); }
