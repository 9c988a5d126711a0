#include "cli/monitor/cluster_view.hpp"

#include <gtest/gtest.h>

namespace tutti::cli {
namespace {

using diagnosis::ProcessState;
using diagnosis::Telemetry;

constexpr double kNow = 1000;

/// Two hosts of two ranks each; all but rank 3, which is stopped, wait for it in an operation.
CollectorAnswer hung_job(double now = kNow, std::int64_t last_done = 20) {
  Telemetry telemetry;
  telemetry.job = 0xabcdef0123456789;
  telemetry.command = "train";
  telemetry.now = now;
  diagnosis::CommunicatorFacts communicator;
  communicator.id = telemetry.job;
  communicator.name = "world";
  communicator.size = 4;
  for (int rank = 0; rank < 4; ++rank) {
    diagnosis::ProcessFacts process;
    process.rank = rank;
    process.pid = 100 + rank;
    process.host = rank < 2 ? "node0" : "node1";
    if (rank == 3) process.state = ProcessState::stopped;
    telemetry.processes.push_back(process);
    diagnosis::MemberFacts member;
    member.rank = member.process = rank;
    member.last_done = last_done;
    if (rank != 3) {
      diagnosis::OperationFacts operation;
      operation.call.number = 21;
      operation.entered = kNow - 5;
      operation.awaited = 3;
      member.operations.push_back(operation);
    }
    communicator.members.push_back(member);
  }
  telemetry.communicators.push_back(communicator);
  CollectorAnswer answer;
  answer.jobs.push_back(telemetry);
  answer.hosts = {{{"host", "node0"}, {"answers", true}, {"heard_seconds_ago", 0.5}, {"jobs", {"abcdef0123456789"}}},
                  {{"host", "node1"}, {"answers", false}, {"heard_seconds_ago", 9.0}, {"jobs", {"abcdef0123456789"}}}};
  return answer;
}

std::string text_of(const JudgedCluster& cluster, const JudgedCluster* before = nullptr) {
  std::string text;
  for (const std::string& line : cluster_lines(cluster, before, {})) text += line + "\n";
  return text;
}

TEST(ClusterView, shows_hosts_ranks_operations_and_who_waits_for_whom) {
  const JudgedCluster cluster(hung_job());
  EXPECT_TRUE(cluster.is_wrong());
  const std::string text = text_of(cluster);
  EXPECT_NE(text.find("train, job abcdef01: 4 ranks on 2 hosts"), std::string::npos) << text;
  EXPECT_NE(text.find("node0  0-1"), std::string::npos) << text;
  EXPECT_NE(text.find("all_reduce #21 of world"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 3 (node1)"), std::string::npos) << text;
  EXPECT_NE(text.find("is stopped"), std::string::npos) << text;
  EXPECT_NE(text.find("frozen: rank 3 (pid 103 on node1)"), std::string::npos) << text;
  EXPECT_NE(text.find("2 agents"), std::string::npos) << text;
  EXPECT_NE(text.find("does not answer"), std::string::npos) << text;
}

TEST(ClusterView, says_how_fast_ranks_are_since_an_earlier_look) {
  const JudgedCluster before(hung_job(kNow - 2, 10)), now(hung_job());
  EXPECT_NE(text_of(now, &before).find("5.0"), std::string::npos) << text_of(now, &before);
}

TEST(ClusterView, folds_many_lines_and_shows_first_what_is_remarkable) {
  CollectorAnswer answer;
  Telemetry telemetry;
  for (int host = 0; host < 100; ++host) {
    diagnosis::ProcessFacts process;
    process.rank = host;
    process.host = "node" + std::to_string(host);
    if (host == 99) process.state = ProcessState::killed;
    telemetry.processes.push_back(process);
  }
  answer.jobs.push_back(telemetry);
  const JudgedCluster cluster(std::move(answer));
  const std::string text = text_of(cluster);
  EXPECT_NE(text.find("node99"), std::string::npos) << text;
  EXPECT_NE(text.find("and 36 lines more (--all)"), std::string::npos) << text;
}

TEST(ClusterView, tells_the_same_as_json) {
  const auto json = cluster_json(JudgedCluster(hung_job()));
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["agents"].size(), 2U);
  const auto& job = json["jobs"][0];
  EXPECT_EQ(job["processes"][0]["operations_done"], 21);
  EXPECT_EQ(job["processes"][0]["operations"][0]["awaited"], 3);
  EXPECT_EQ(job["processes"][3]["state"], "stopped");
  EXPECT_EQ(job["verdicts"][0]["class"], "frozen");
}

}  // namespace
}  // namespace tutti::cli
