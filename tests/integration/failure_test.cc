// What happens to the others when processes die, hang, never come, or strangers call.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "rank_processes.hpp"

namespace tutti::integration {
namespace {

using Command = std::vector<std::string>;

// Slow under sanitizers and beside other work; what is promised is measured, this only bounds the test.
constexpr double kPatience = 20;
constexpr double kDeathKnown = 1.0;
constexpr double kGoesOn = 3.0;

Command rank_command(std::initializer_list<std::string> options = {}) {
  Command command{FAILURE_RANK};
  command.insert(command.end(), options);
  return command;
}

struct Way {
  const char* name;
  Variables variables;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
const Way kSharedMemory{"SharedMemory", {{"TUTTI_LOG", "error"}}};
const Way kTcp{"Tcp", {{"TUTTI_LOG", "error"}, {"TUTTI_SHM", "0"}}};

/// What is in a folder that outlives processes, but for recordings, which are there to be read after one was killed,
/// and folders of other tests.
std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (const std::string name = entry.path().filename();
        !name.starts_with("tutti-") && !name.starts_with("tutti_test."))
      names.insert(name);
  return names;
}

class Failure : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }

  /// Starts so many ranks and waits until all are at work.
  void start(int ranks, const Command& command) {
    job_ = std::make_unique<RankProcesses>(ranks, GetParam().variables);
    for (int rank = 0; rank < ranks; ++rank) job_->start(rank, command);
    all_ready(ranks);
  }
  void all_ready(int ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      ASSERT_TRUE(job_->hear(rank, "ready", in(kPatience))) << "rank " << rank << " said: " << job_->said(rank);
  }

  /// The survivor's own call fails with rank_died, names one of the dead, and does so in time.
  void expect_told(int survivor, const std::vector<int>& dead, Clock::time_point killed) {
    const auto line = job_->hear(survivor, "failed", in(kPatience));
    ASSERT_TRUE(line) << "rank " << survivor << " said: " << job_->said(survivor);
    EXPECT_LT(seconds_since(killed), kDeathKnown) << "rank " << survivor;
    bool named = false;
    for (const int rank : dead) named = named || line->rfind(fmt::format("failed rank died {} ", rank), 0) == 0;
    EXPECT_TRUE(named) << "rank " << survivor << " said: " << *line;
  }

  void expect_goes_on(int survivor, int size, Clock::time_point killed) {
    const auto shrunk = job_->hear(survivor, "shrunk", in(kPatience));
    ASSERT_TRUE(shrunk) << "rank " << survivor << " said: " << job_->said(survivor);
    EXPECT_EQ(shrunk->substr(0, shrunk->rfind(' ')), fmt::format("shrunk {}", size)) << "rank " << survivor;
    EXPECT_TRUE(job_->hear(survivor, "right", in(kPatience)))
        << "rank " << survivor << " said: " << job_->said(survivor);
    EXPECT_LT(seconds_since(killed), kGoesOn) << "rank " << survivor;
    EXPECT_EQ(job_->wait(survivor, in(kPatience)), 0) << "rank " << survivor << " said: " << job_->said(survivor);
  }

  /// Some ranks of a job are killed in the middle of a collective; the others are told, shrink, and go on.
  void survive(int ranks, const std::vector<int>& victims) {
    const auto before = shared_memory_files();
    start(ranks, rank_command({"--shrink"}));
    const auto killed = Clock::now();
    // Stopped first: one that hears of another's death would start to shrink, and be counted in.
    for (const int victim : victims) job_->kill(victim, SIGSTOP);
    for (const int victim : victims) job_->kill(victim);
    const auto dead = [&](int rank) { return std::find(victims.begin(), victims.end(), rank) != victims.end(); };
    for (int rank = 0; rank < ranks; ++rank)
      if (!dead(rank)) expect_told(rank, victims, killed);
    for (int rank = 0; rank < ranks; ++rank)
      if (!dead(rank)) expect_goes_on(rank, ranks - static_cast<int>(victims.size()), killed);
    job_.reset();
    EXPECT_EQ(shared_memory_files(), before);
  }

  std::unique_ptr<RankProcesses> job_;
};

INSTANTIATE_TEST_SUITE_P(Over, Failure, testing::Values(kSharedMemory, kTcp),
                         [](const auto& each) { return each.param.name; });

TEST_P(Failure, TheLastRankIsKilled) { survive(4, {3}); }
TEST_P(Failure, RankZeroIsKilled) { survive(4, {0}); }
TEST_P(Failure, TwoRanksAreKilledAtOnce) { survive(5, {1, 4}); }
TEST_P(Failure, AllButOneAreKilled) { survive(3, {0, 1}); }

TEST_P(Failure, ARankIsKilledDuringShrink) {
  for (const int delay : {0, 2, 10}) {
    SCOPED_TRACE(fmt::format("dies {} ms after it entered shrink", delay));
    constexpr int kRanks = 5;
    job_ = std::make_unique<RankProcesses>(kRanks, GetParam().variables);
    // Rank 0 leads the agreement first, and is the one that dies in it.
    for (int rank = 0; rank < kRanks; ++rank)
      job_->start(rank, rank == 0 ? rank_command({"--shrink", "--die-in-shrink", std::to_string(delay)})
                                  : rank_command({"--shrink"}));
    all_ready(kRanks);
    const auto killed = Clock::now();
    job_->kill(4);
    for (int rank = 1; rank < 4; ++rank) {
      ASSERT_TRUE(job_->hear(rank, "right", in(kPatience))) << "rank " << rank << " said: " << job_->said(rank);
      EXPECT_LT(seconds_since(killed), kGoesOn) << "rank " << rank;
    }
  }
}

TEST_P(Failure, AProcessThatForkedAWorkerAndIsKilledIsSeenAtOnce) {
  start(3, rank_command({"--fork-child"}));
  // The child of each rank holds copies of its sockets and segments.
  const auto killed = Clock::now();
  job_->kill(1);
  expect_told(0, {1}, killed);
  expect_told(2, {1}, killed);
}

TEST_P(Failure, ARankThatExitsInTheMiddleIsNamed) {
  job_ = std::make_unique<RankProcesses>(3, GetParam().variables);
  for (int rank = 0; rank < 3; ++rank) job_->start(rank, rank == 2 ? rank_command({"--exit-early"}) : rank_command());
  ASSERT_TRUE(job_->wait(2, in(kPatience)));
  const auto gone = Clock::now();
  expect_told(0, {2}, gone);
  expect_told(1, {2}, gone);
}

TEST_P(Failure, RanksThatNeverDestroyTheirCommunicatorExitWell) {
  start(3, rank_command());
  job_->tell(1, "stop");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(job_->hear(rank, "right", in(kPatience))) << job_->said(rank);
    EXPECT_EQ(job_->wait(rank, in(kPatience)), 0) << job_->said(rank);
  }
}

TEST_P(Failure, ARankThatHasNotEnteredIsWarnedAboutThenTimedOut) {
  Variables variables = GetParam().variables;
  variables["TUTTI_LOG"] = "warn";
  variables["TUTTI_LATE_WARNING"] = "0.3";
  job_ = std::make_unique<RankProcesses>(3, variables);
  for (int rank = 0; rank < 3; ++rank)
    job_->start(rank, rank == 1 ? rank_command({"--sit-out"}) : rank_command({"--timeout", "1"}));
  for (const int rank : {0, 2}) {
    const auto line = job_->hear(rank, "failed", in(kPatience));
    ASSERT_TRUE(line) << job_->said(rank);
    EXPECT_EQ(line->rfind("failed timed out", 0), 0U) << *line;
    EXPECT_NE(line->find("waiting for rank 1"), std::string::npos) << *line;
  }
  const bool warned = (job_->said(0) + job_->said(2)).find("waiting for rank 1 for") != std::string::npos;
  EXPECT_TRUE(warned) << job_->said(0) << job_->said(2);
  EXPECT_FALSE(job_->wait(1, Clock::now())) << "the late rank lives: " << job_->said(1);
}

TEST_P(Failure, ARankThatNeverJoinsIsNamedAtTheDeadline) {
  Variables variables = GetParam().variables;
  variables["TUTTI_JOIN_TIMEOUT"] = "1";
  job_ = std::make_unique<RankProcesses>(3, variables);
  const auto started = Clock::now();
  for (const int rank : {0, 2}) job_->start(rank, rank_command());
  for (const int rank : {0, 2}) {
    const auto line = job_->hear(rank, "failed timed out", in(kPatience));
    ASSERT_TRUE(line) << job_->said(rank);
    EXPECT_NE(line->find("rank 1"), std::string::npos) << *line;
  }
  EXPECT_LT(seconds_since(started), 1 + kGoesOn);
}

/// An operation that is only tested, or that nobody looks after, notices a rank that left as one that is waited for.
TEST_P(Failure, ARankThatLeftIsNoticedByOperationsThatNobodyWaitsFor) {
  for (const char* const how : {"test", "drop"}) {
    SCOPED_TRACE(how);
    job_ = std::make_unique<RankProcesses>(2, GetParam().variables);
    job_->start(0, rank_command({"--async", how}));
    job_->start(1, rank_command({"--sit-out"}));
    all_ready(2);
    job_->tell(1, "stop");
    ASSERT_TRUE(job_->wait(1, in(kPatience)));
    expect_told(0, {1}, Clock::now());
  }
}

/// Its process lives, and so do the connections to it.
TEST_P(Failure, ARankThatDestroyedItsCommunicatorIsMissed) {
  for (const char* const how : {"collective", "recv"}) {
    SCOPED_TRACE(how);
    job_ = std::make_unique<RankProcesses>(3, GetParam().variables);
    for (int rank = 0; rank < 3; ++rank) job_->start(rank, rank_command({"--copy", rank == 1 ? "destroy" : how}));
    for (const int rank : {0, 2}) {
      const auto line = job_->hear(rank, "failed", in(kPatience));
      ASSERT_TRUE(line) << "rank " << rank << " said: " << job_->said(rank);
      EXPECT_EQ(line->rfind("failed rank died 1 ", 0), 0U) << *line;
      EXPECT_NE(line->find("rank 1 has left"), std::string::npos) << *line;
    }
    job_->tell(1, "stop");
    EXPECT_TRUE(job_->hear(1, "right", in(kPatience))) << job_->said(1);
  }
}

/// The others would wait for it in the middle of the split.
TEST_P(Failure, ASplitThatFailsOnOneRankFailsOnAllWithItsReason) {
  constexpr int kRanks = 3;
  job_ = std::make_unique<RankProcesses>(kRanks, GetParam().variables);
  for (int rank = 0; rank < kRanks; ++rank)
    job_->start(rank, rank == 1 ? rank_command({"--split", "--little-memory"}) : rank_command({"--split"}));
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto line = job_->hear(rank, "failed", in(kPatience));
    ASSERT_TRUE(line) << "rank " << rank << " said: " << job_->said(rank);
    EXPECT_EQ(line->rfind("failed system 1 ", 0), 0U) << *line;
    EXPECT_NE(line->find("rank 1 failed"), std::string::npos) << *line;
    EXPECT_NE(line->find("Cannot allocate memory"), std::string::npos) << *line;
    EXPECT_TRUE(job_->hear(rank, "whole", in(kPatience))) << "rank " << rank << " said: " << job_->said(rank);
  }
}

TEST_P(Failure, ARankThatCannotMakeItsCommunicatorTellsTheOthersWhy) {
  job_ = std::make_unique<RankProcesses>(2, GetParam().variables);
  job_->start(0, rank_command());
  job_->start(1, rank_command(), {{"TUTTI_PLANS", "/nonexistent/plans"}});
  for (const int rank : {0, 1}) {
    const auto line = job_->hear(rank, "failed", in(kPatience));
    ASSERT_TRUE(line) << "rank " << rank << " said: " << job_->said(rank);
    EXPECT_NE(line->find("/nonexistent/plans"), std::string::npos) << *line;
    if (rank == 0) {
      EXPECT_NE(line->find("rank 1 could not join"), std::string::npos) << *line;
    }
  }
}

/// It has met the others, and then stands still before the operation that proves that all are here.
TEST_P(Failure, ARankThatStandsStillAfterJoiningIsNamedAtTheDeadline) {
  const std::string pipe = fmt::format("{}/tutti-stuck-{}.rules", testing::TempDir(), ::getpid());
  ::unlink(pipe.c_str());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Variables variables = GetParam().variables;
  variables["TUTTI_JOIN_TIMEOUT"] = "2";
  job_ = std::make_unique<RankProcesses>(2, variables);
  const auto started = Clock::now();
  job_->start(0, rank_command());
  job_->start(1, rank_command(), {{"TUTTI_TUNE_FILE", pipe}});  // nobody ever writes into it
  const auto line = job_->hear(0, "failed", in(kPatience));
  const double seconds = seconds_since(started);
  job_.reset();
  ::unlink(pipe.c_str());
  ASSERT_TRUE(line);
  EXPECT_EQ(line->rfind("failed timed out 1 ", 0), 0U) << *line;
  EXPECT_NE(line->find("create: "), std::string::npos) << *line;
  EXPECT_LT(seconds, 2 + kGoesOn);
}

TEST(Settings, ThatDifferBetweenRanksAreNamedWithBothValues) {
  struct Setting {
    const char* name;
    const char* usual;
    const char* odd;
  };
  for (const Setting& each : {Setting{"TUTTI_SHM", "1", "0"}, Setting{"TUTTI_TCP_CHUNK", "0", "8192"},
                              Setting{"TUTTI_REPRODUCIBLE", "0", "1"}}) {
    SCOPED_TRACE(each.name);
    RankProcesses job(3, {{"TUTTI_LOG", "error"}, {each.name, each.usual}});
    const auto started = Clock::now();
    for (int rank = 0; rank < 3; ++rank)
      job.start(rank, rank_command(), rank == 2 ? Variables{{each.name, each.odd}} : Variables{});
    for (int rank = 0; rank < 3; ++rank) {
      const auto line = job.hear(rank, "failed", in(kPatience));
      ASSERT_TRUE(line) << "rank " << rank << " said: " << job.said(rank);
      EXPECT_EQ(line->rfind("failed refused ", 0), 0U) << *line;
      EXPECT_NE(line->find(fmt::format("rank 2 has {}={}", each.name, each.odd)), std::string::npos) << *line;
      EXPECT_NE(line->find(fmt::format("has {}={}", each.name, each.usual)), std::string::npos) << *line;
    }
    EXPECT_LT(seconds_since(started), kPatience / 2);
  }
}

/// A connection to a port of this host.
Fd connect_to(int port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool open = ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  return open ? std::move(socket) : Fd();
}

TEST_P(Failure, StrangersDoNoHarm) {
  constexpr int kRanks = 3;
  start(kRanks, rank_command({"--count", "1000"}));
  std::vector<Fd> strangers;
  int reached = 0;
  for (int rank = 0; rank < kRanks; ++rank)
    for (const int port : listening_ports(job_->pid(rank)))
      for (int visit = 0; visit < 8; ++visit) {
        Fd stranger = connect_to(port);
        if (!stranger) continue;
        ++reached;
        std::string garbage(static_cast<std::size_t>(visit) * 500, static_cast<char>(visit * 37));
        if (visit == 1) garbage = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        [[maybe_unused]] const ssize_t sent = ::send(stranger.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
        if (visit % 2 == 0) strangers.push_back(std::move(stranger));  // stays open, and says no more
      }
  EXPECT_GT(reached, 0) << "no port to try";
  const auto told = Clock::now();
  job_->tell(0, "stop");
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(job_->hear(rank, "right", in(kPatience))) << "rank " << rank << " said: " << job_->said(rank);
  EXPECT_LT(seconds_since(told), kGoesOn);
}

TEST(CrossMemoryAttach, ForbiddenOnSomeRanksTheDataTakesAnotherWay) {
  RankProcesses job(3, kSharedMemory.variables);
  for (int rank = 0; rank < 3; ++rank) {
    Command command = rank_command({"--count", "300007"});
    if (rank == 1) command.push_back("--forbid-attach");
    job.start(rank, command, {{"TUTTI_LOG", "warn"}});
  }
  for (int rank = 0; rank < 3; ++rank)
    ASSERT_TRUE(job.hear(rank, "ready", in(kPatience))) << "rank " << rank << " said: " << job.said(rank);
  job.tell(2, "stop");
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(job.hear(rank, "right", in(kPatience))) << "rank " << rank << " said: " << job.said(rank);
  EXPECT_NE(job.said(1).find("cross-memory attach"), std::string::npos) << job.said(1);
}

}  // namespace
}  // namespace tutti::integration
