#include "collector/known_hosts.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "diagnosis/diagnose.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"

namespace tutti::collector {
namespace {

using diagnosis::FaultClass;
using diagnosis::ProcessState;
using diagnosis::Telemetry;

constexpr std::uint64_t kJob = 7;

/// What a host with one rank of the job tells. Its clock is `clock` ahead of ours.
std::string line(int rank, double at, double clock = 0, std::uint64_t job = kJob) {
  Telemetry telemetry;
  telemetry.job = job;
  telemetry.now = at + clock;
  telemetry.processes.resize(1);
  telemetry.processes[0].rank = rank;
  telemetry.processes[0].pid = 100 + rank;
  telemetry.processes[0].host = "node" + std::to_string(rank);
  return line_of(telemetry);
}

agent::LookMessage look(double at, double clock = 0, std::vector<std::uint64_t> jobs = {kJob}) {
  agent::LookMessage message;
  message.looked_at = at + clock;
  message.sent = static_cast<std::int64_t>(1e9 * (at + clock));
  message.jobs = std::move(jobs);
  return message;
}

const KnownHosts::Key kLeft{"node0", 1}, kRight{"node1", 1};

/// Two hosts that have told of the job at a moment, the second with a clock of its own.
KnownHosts two_hosts(double at) {
  KnownHosts hosts;
  hosts.connected(kLeft, at);
  hosts.connected(kRight, at);
  EXPECT_TRUE(hosts.take_telemetry(kLeft, line(0, at), at));
  EXPECT_TRUE(hosts.take_look(kLeft, look(at), at, at));
  EXPECT_TRUE(hosts.take_telemetry(kRight, line(1, at, 5000), at));
  EXPECT_TRUE(hosts.take_look(kRight, look(at, 5000), at, at));
  hosts.merged(at - KnownHosts::kJoin);  // of which no host has joined since
  return hosts;
}

TEST(KnownHosts, waits_for_all_hosts_of_a_new_job) {
  KnownHosts hosts;
  double now = 100;
  for (int rank = 0; rank < 3; ++rank, now += 0.8) {
    const KnownHosts::Key key{"node", rank};
    hosts.connected(key, now);
    EXPECT_TRUE(hosts.take_telemetry(key, line(rank, now), now));
    EXPECT_TRUE(hosts.take_look(key, look(now), now, now));
    EXPECT_TRUE(hosts.merged(now).empty());
    EXPECT_TRUE(hosts.is_joining());
  }
  ASSERT_EQ(hosts.merged(now + 0.3).size(), 1U);
  EXPECT_FALSE(hosts.is_joining());
  // One that comes late is not waited for.
  const KnownHosts::Key late{"late", 1};
  hosts.connected(late, 200);
  EXPECT_TRUE(hosts.take_telemetry(late, line(5, 200), 200));
  EXPECT_EQ(hosts.merged(200).size(), 1U);
}

TEST(KnownHosts, puts_hosts_together_on_one_clock) {
  KnownHosts hosts = two_hosts(100);
  const auto jobs = hosts.merged(100.5);
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].processes.size(), 2U);
  EXPECT_NEAR(jobs[0].now, 100, 1e-6);
}

TEST(KnownHosts, takes_a_look_for_news_that_nothing_has_moved) {
  KnownHosts hosts = two_hosts(100);
  EXPECT_TRUE(hosts.take_look(kLeft, look(101), 101, 101));
  EXPECT_TRUE(hosts.take_look(kRight, look(101, 5000), 101, 101));
  EXPECT_NEAR(hosts.merged(101.1)[0].now, 101, 1e-6);
}

TEST(KnownHosts, does_not_know_the_ranks_of_a_host_that_says_nothing_and_does_once_it_is_back) {
  KnownHosts hosts = two_hosts(100);
  hosts.disconnected(kRight);
  EXPECT_TRUE(hosts.take_look(kLeft, look(104), 104, 104));
  auto verdicts = diagnosis::diagnose(hosts.merged(104)[0]);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].fault, FaultClass::unobserved);
  hosts.connected(kRight, 105);
  EXPECT_TRUE(hosts.take_look(kLeft, look(105), 105, 105));
  EXPECT_TRUE(hosts.take_telemetry(kRight, line(1, 105, 9000), 105));
  EXPECT_TRUE(hosts.take_look(kRight, look(105, 9000), 105, 105));
  EXPECT_TRUE(diagnosis::diagnose(hosts.merged(105)[0]).empty());
}

TEST(KnownHosts, hears_an_agent_that_has_no_time_to_look) {
  KnownHosts hosts = two_hosts(100);
  for (const auto& key : {kLeft, kRight}) hosts.take_alive(key, 104);
  const auto jobs = hosts.merged(104);
  EXPECT_EQ(jobs[0].processes[0].state, ProcessState::running);
  EXPECT_NEAR(jobs[0].now, 100, 1e-6) << "nothing is known of later";
}

TEST(KnownHosts, forgets_a_job_that_ended_on_a_host_that_answers) {
  KnownHosts hosts = two_hosts(100);
  hosts.disconnected(kRight);
  EXPECT_TRUE(hosts.take_look(kLeft, look(110, 0, {}), 110, 110));
  EXPECT_TRUE(hosts.merged(110).empty());
}

TEST(KnownHosts, forgets_a_host_after_an_hour) {
  KnownHosts hosts = two_hosts(100);
  hosts.disconnected(kRight);
  EXPECT_EQ(hosts.merged(101 + KnownHosts::kForget).at(0).processes.size(), 1U);
  EXPECT_EQ(hosts.size(), 1U) << "one that is connected stays";
}

TEST(KnownHosts, refuses_what_is_too_much_and_what_is_no_telemetry) {
  KnownHosts hosts = two_hosts(100);
  EXPECT_FALSE(hosts.take_telemetry(kLeft, "{", 100));
  EXPECT_FALSE(hosts.take_telemetry(kLeft, R"({"telemetry": 1, "delays": [{"source": 4}]})", 100));
  for (std::uint64_t job = 100; job < 99 + agent::kMostJobs; ++job)
    EXPECT_TRUE(hosts.take_telemetry(kLeft, line(0, 100, 0, job), 100));
  EXPECT_FALSE(hosts.take_telemetry(kLeft, line(0, 100, 0, 999), 100));
  std::string long_line = line(1, 100);
  long_line.insert(long_line.size() - 1, KnownHosts::kMostBytes, ' ');
  EXPECT_FALSE(hosts.take_telemetry(kRight, long_line, 100));
}

TEST(KnownHosts, says_of_each_agent_when_it_was_heard) {
  const KnownHosts hosts = two_hosts(100);
  const auto list = hosts.as_json(102, 102);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[1]["host"], "node1");
  EXPECT_EQ(list[1]["answers"], true);
  EXPECT_NEAR(list[1]["looked_seconds_ago"].get<double>(), 2, 1e-6);
  EXPECT_EQ(list[1]["jobs"][0], "0000000000000007");
}

}  // namespace
}  // namespace tutti::collector
