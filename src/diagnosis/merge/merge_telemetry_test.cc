#include "diagnosis/merge/merge_telemetry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "diagnosis/diagnose.hpp"
#include "diagnosis/merge/cut_job_test_kit.hpp"
#include "diagnosis/synthetic_job_test_kit.hpp"
#include "diagnosis/telemetry/telemetry_check.hpp"

namespace tutti::diagnosis {
namespace {

double clock_of(std::size_t host) { return 1000.0 * static_cast<double>(host + 1); }

std::vector<HostTelemetry> told(const std::vector<Telemetry>& parts) {
  std::vector<HostTelemetry> hosts;
  for (const Telemetry& part : parts) hosts.push_back({&part, part.now, -clock_of(hosts.size()), true});
  return hosts;
}

std::vector<std::string> sorted_keys(const Telemetry& telemetry) {
  std::vector<std::string> keys;
  for (Verdict& verdict : diagnose(telemetry)) {
    // Names of ranks, which do not depend on the order of hosts. Of a lane, the end that comes first is named.
    std::string key(name_of(verdict.fault));
    const bool either_end = verdict.fault == FaultClass::path_down || verdict.fault == FaultClass::flapping;
    for (const Suspect& each : verdict.suspects)
      key += (either_end ? "" : " " + std::to_string(each.rank) + "@" + each.host) + "/" + std::to_string(each.path);
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

bool unheard(const Telemetry& part) {
  return std::any_of(part.processes.begin(), part.processes.end(),
                     [](const ProcessFacts& each) { return each.state == ProcessState::unreachable; });
}

/// Hosts come in any order. One whose ranks are unreachable says what it said when it was heard of last.
void expect_same_verdicts(const Telemetry& whole, std::uint64_t seed) {
  std::vector<Telemetry> parts = cut_by_host(whole, clock_of);
  std::vector<HostTelemetry> hosts = told(parts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    hosts[i].heard = !unheard(parts[i]);
    for (ProcessFacts& each : parts[i].processes)
      if (each.state == ProcessState::unreachable) each.state = ProcessState::running;
  }
  std::mt19937_64 random(seed);
  std::shuffle(hosts.begin(), hosts.end(), random);
  const std::vector<Telemetry> merged = merge_telemetry(hosts);
  ASSERT_EQ(merged.size(), 1U);
  EXPECT_TRUE(check_telemetry(merged[0]).has_value());
  EXPECT_NEAR(merged[0].now, whole.now, 1e-6);
  EXPECT_EQ(merged[0].processes.size(), whole.processes.size());
  EXPECT_EQ(sorted_keys(merged[0]), sorted_keys(whole)) << "seed " << seed;
}

TEST(MergeTelemetry, gives_the_same_verdicts_as_the_whole_job) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) expect_same_verdicts(SyntheticJob(128, seed).finish(), seed);
  for (int i = 0; i < kFaultClasses; ++i)
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SyntheticJob job(128, seed);
      job.inject(static_cast<FaultClass>(i), 0.5);
      SCOPED_TRACE(name_of(static_cast<FaultClass>(i)));
      expect_same_verdicts(job.finish(), seed);
    }
}

TEST(MergeTelemetry, gives_the_same_verdicts_on_two_faults) {
  std::mt19937_64 random(7);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto one = static_cast<FaultClass>(random() % kFaultClasses);
    const auto other = static_cast<FaultClass>(random() % kFaultClasses);
    if (one == other || !SyntheticJob::go_together(one, other)) continue;
    SyntheticJob job(128, seed);
    job.inject(one, 0.7);
    job.inject(other, 0.7);
    SCOPED_TRACE(std::string(name_of(one)) + " and " + std::string(name_of(other)));
    expect_same_verdicts(job.finish(), seed);
  }
}

/// Two hosts with a rank each, in one communicator, with a lane from each to the other.
std::vector<Telemetry> two_hosts() {
  std::vector<Telemetry> parts(2);
  for (int rank = 0; rank < 2; ++rank) {
    Telemetry& part = parts[static_cast<std::size_t>(rank)];
    part.job = 7;
    part.now = 50 + clock_of(static_cast<std::size_t>(rank));
    part.processes.resize(2);
    part.processes[0].rank = rank;
    part.processes[0].pid = 100;  // in namespaces of their own
    part.processes[0].host = rank == 0 ? "left" : "right";
    part.processes[1].rank = 1 - rank;
    part.processes[1].state = ProcessState::elsewhere;
    LaneFacts lane;
    lane.process = 0;
    lane.peer = 1;
    part.lanes.push_back(lane);
    CommunicatorFacts communicator;
    communicator.id = 7;
    communicator.size = 2;
    communicator.members.resize(1);
    communicator.members[0].rank = rank;
    communicator.members[0].process = 0;
    communicator.members[0].last_done = 20;
    communicator.rhythm.operations = 20U + static_cast<unsigned>(rank);
    communicator.rhythm.period = 0.1 * (rank + 1);
    part.communicators.push_back(communicator);
  }
  return parts;
}

TEST(MergeTelemetry, puts_what_a_host_says_of_itself_in_place_of_what_others_do_not_know) {
  const auto parts = two_hosts();
  const auto merged = merge_telemetry(told(parts));
  ASSERT_EQ(merged.size(), 1U);
  const Telemetry& job = merged[0];
  ASSERT_EQ(job.processes.size(), 2U);
  ASSERT_EQ(job.lanes.size(), 2U);
  EXPECT_EQ(job.processes[static_cast<std::size_t>(job.lanes[0].peer)].host, "right");
  EXPECT_EQ(job.processes[static_cast<std::size_t>(job.lanes[1].peer)].host, "left");
  ASSERT_EQ(job.communicators.size(), 1U);
  EXPECT_EQ(job.communicators[0].members.size(), 2U);
  EXPECT_EQ(job.communicators[0].rhythm.period, 0.2) << "the host that knows most operations";
}

TEST(MergeTelemetry, keeps_a_process_elsewhere_that_no_host_knows) {
  auto parts = two_hosts();
  parts.resize(1);
  const auto merged = merge_telemetry(told(parts));
  ASSERT_EQ(merged[0].processes.size(), 2U);
  EXPECT_EQ(merged[0].processes[1].state, ProcessState::elsewhere);
  EXPECT_EQ(merged[0].processes[1].rank, 1);
}

TEST(MergeTelemetry, judges_the_moment_that_all_hosts_have_told_of) {
  auto parts = two_hosts();
  auto hosts = told(parts);
  hosts[1].now += 3;  // nothing has moved there since
  EXPECT_NEAR(merge_telemetry(hosts)[0].now, 50, 1e-9);
  hosts[0].now += 1;
  EXPECT_NEAR(merge_telemetry(hosts)[0].now, 51, 1e-9);
  hosts[0].heard = false;
  EXPECT_NEAR(merge_telemetry(hosts)[0].now, 53, 1e-9) << "who does not answer holds nobody up";
}

TEST(MergeTelemetry, calls_the_ranks_of_a_host_that_does_not_answer_unobserved_and_not_dead) {
  auto parts = two_hosts();
  auto hosts = told(parts);
  hosts[1].heard = false;
  const auto verdicts = diagnose(merge_telemetry(hosts)[0]);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].fault, FaultClass::unobserved);
  EXPECT_EQ(verdicts[0].suspects[0].host, "right");
  parts[1].processes[0].state = ProcessState::killed;
  EXPECT_EQ(diagnose(merge_telemetry(hosts)[0])[0].fault, FaultClass::crashed) << "that was seen before";
}

TEST(MergeTelemetry, takes_a_process_once_that_two_agents_tell_of) {
  auto parts = two_hosts();
  parts.push_back(parts[1]);
  auto hosts = told(parts);
  hosts[2].offset = hosts[1].offset;
  const auto merged = merge_telemetry(hosts);
  EXPECT_EQ(merged[0].processes.size(), 2U);
  EXPECT_EQ(merged[0].lanes.size(), 2U);
  EXPECT_EQ(merged[0].communicators[0].members.size(), 2U);
}

TEST(MergeTelemetry, keeps_jobs_apart) {
  auto parts = two_hosts();
  parts[1].job = 8;
  const auto merged = merge_telemetry(told(parts));
  ASSERT_EQ(merged.size(), 2U);
  EXPECT_EQ(merged[0].job, 7U);
  EXPECT_EQ(merged[1].job, 8U);
}

TEST(MergeTelemetry, makes_delays_relative_to_the_best_of_all_hosts) {
  auto parts = two_hosts();
  parts[0].paths = {{0, 100}};
  parts[1].paths = {{0, 400}};
  parts[0].delays = {{0, 1, 0, false, 1.0, 0}};
  parts[1].delays = {{0, 1, 0, false, 1.0, 0}};
  const auto merged = merge_telemetry(told(parts));
  EXPECT_EQ(merged[0].delays[0].relative, 4) << "the best of a slow host is slow";
  EXPECT_EQ(merged[0].delays[1].relative, 1);
}

}  // namespace
}  // namespace tutti::diagnosis
