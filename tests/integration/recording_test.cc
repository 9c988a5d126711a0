// What can be read of ranks from outside: while they run, while they hang, and after one was killed.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "monitor/read/recording_test_kit.hpp"
#include "monitor/read/snapshot.hpp"
#include "rank_processes.hpp"

namespace tutti::integration {
namespace {

using monitor::CommunicatorView;
using monitor::PendingView;
using monitor::ProcessView;
using monitor::Snapshot;

constexpr double kPatience = 30;

struct Way {
  const char* name;
  Variables variables;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class Recording : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }

  void start(int ranks, Variables more = {}) {
    Variables variables = std::move(more);
    variables.merge(Variables(GetParam().variables));
    // failure_rank never destroys its communicator.
    variables.merge(
        Variables{{"TUTTI_LOG", "error"}, {"TUTTI_MONITOR_DIR", folder_.path()}, {"ASAN_OPTIONS", "detect_leaks=0"}});
    job_ = std::make_unique<RankProcesses>(ranks, variables);
    for (int rank = 0; rank < ranks; ++rank) job_->start(rank, {FAILURE_RANK});
    for (int rank = 0; rank < ranks; ++rank)
      ASSERT_TRUE(job_->hear(rank, "ready", in(kPatience))) << "rank " << rank << " said: " << job_->said(rank);
  }

  Snapshot look() const { return take_snapshot({folder_.path()}, monitor::Detail::all()); }

  const ProcessView* find(const Snapshot& all, int rank) const {
    for (const ProcessView& process : all.processes)
      if (process.pid == job_->pid(rank)) return &process;
    return nullptr;
  }

  /// Looks until it finds what it looks for.
  bool see(const std::function<bool(const Snapshot&)>& what) const {
    for (const auto deadline = in(kPatience); Clock::now() < deadline; ::usleep(2000))
      if (what(look())) return true;
    return false;
  }

  monitor::TemporaryFolder folder_;
  std::unique_ptr<RankProcesses> job_;
};

const PendingView* pending_of(const ProcessView* process) {
  if (process == nullptr || process->communicators.empty() || process->communicators[0].pending.empty()) return nullptr;
  return &process->communicators[0].pending[0];
}

TEST_P(Recording, TellsOfARankThatWasKilledToTheStep) {
  start(3);
  // Rank 1 waits for rank 2, in some step that does not change any more.
  job_->kill(2, SIGSTOP);
  PendingView before;
  ASSERT_TRUE(see([&](const Snapshot& all) {
    const PendingView* const pending = pending_of(find(all, 1));
    if (pending == nullptr || pending->awaited < 0) return false;
    const bool settled = before.operation.number == pending->operation.number && before.workers == pending->workers;
    before = *pending;
    return settled;
  }));
  job_->kill(1, SIGKILL);
  ASSERT_TRUE(see([&](const Snapshot& all) { return !find(all, 1)->alive; }));
  const Snapshot all = look();
  const ProcessView* const killed = find(all, 1);
  EXPECT_FALSE(killed->ended);
  const PendingView* const after = pending_of(killed);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->operation.collective, Collective::all_reduce);
  EXPECT_EQ(after->operation.number, before.operation.number);
  EXPECT_EQ(after->workers, before.workers);
  EXPECT_FALSE(after->operation.program.empty());
  const CommunicatorView& communicator = killed->communicators[0];
  EXPECT_EQ(communicator.rank, 1);
  EXPECT_EQ(communicator.size, 3);
  EXPECT_EQ(communicator.entered, communicator.done + 1);
  ASSERT_FALSE(communicator.operations.empty());
  EXPECT_EQ(communicator.operations.back().number + 1, after->operation.number);
  job_->kill(2, SIGCONT);
}

TEST_P(Recording, OfTheDeadIsGoneWhenTheNextJobStarts) {
  start(2);
  const pid_t killed = job_->pid(1);
  job_->kill(1, SIGKILL);
  job_->kill(0, SIGKILL);
  ASSERT_TRUE(see([&](const Snapshot& all) { return all.processes.size() == 2 && !find(all, 1)->alive; }));
  start(2);
  const Snapshot all = look();
  EXPECT_EQ(all.processes.size(), 2U);
  for (const ProcessView& process : all.processes) EXPECT_NE(process.pid, killed);
}

TEST_P(Recording, OfWhoLeavesInOrderIsRemoved) {
  start(2);
  job_->tell(0, "stop");
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(job_->wait(rank, in(kPatience)), 0);
  EXPECT_TRUE(look().processes.empty());
}

TEST_P(Recording, NamesWhomEachWaitsFor) {
  start(3);
  job_->kill(2, SIGSTOP);
  EXPECT_TRUE(see([&](const Snapshot& all) {
    const PendingView* const zero = pending_of(find(all, 0));
    const PendingView* const one = pending_of(find(all, 1));
    if (zero == nullptr || one == nullptr || zero->awaited < 0 || one->awaited < 0) return false;
    // Whoever waits for the other rank that waits leads on to the one that stopped.
    return zero->awaited == 2 || one->awaited == 2;
  }));
  EXPECT_TRUE(see([&](const Snapshot& all) { return find(all, 2)->stopped && !find(all, 1)->stopped; }));
  job_->kill(2, SIGCONT);
  const std::uint64_t then = find(look(), 0)->communicators[0].done;
  EXPECT_TRUE(see([&](const Snapshot& all) { return find(all, 0)->communicators[0].done > then + 3; }));
}

TEST_P(Recording, CountsAddUp) {
  start(2);
  ASSERT_TRUE(see([&](const Snapshot& all) { return find(all, 0)->communicators[0].done > 20; }));
  job_->kill(0, SIGSTOP);
  job_->kill(1, SIGSTOP);
  const Snapshot all = look();
  for (int rank = 0; rank < 2; ++rank) {
    const CommunicatorView& communicator = find(all, rank)->communicators[0];
    std::uint64_t summed = 0;
    for (const monitor::TotalView& total : communicator.totals) summed += total.operations;
    // One may be between its record and its count.
    EXPECT_LE(communicator.done - summed, 1U);
    for (const monitor::LinkView& link : communicator.links) {
      // What comes early is received before it is expected.
      EXPECT_TRUE(link.receives || link.posted >= link.sent) << link.posted << " < " << link.sent;
      EXPECT_GE(link.sent, link.acked);
      EXPECT_GT(link.posted, 0U);
    }
    for (std::size_t i = 1; i < communicator.operations.size(); ++i) {
      const auto& operation = communicator.operations[i];
      EXPECT_EQ(operation.number, communicator.operations[i - 1].number + 1);
      EXPECT_LE(communicator.operations[i - 1].done, operation.entered);
      EXPECT_LE(operation.entered, operation.done);
    }
    EXPECT_FALSE(communicator.steps.empty());
  }
  job_->kill(0, SIGCONT);
  job_->kill(1, SIGCONT);
}

INSTANTIATE_TEST_SUITE_P(Ways, Recording, testing::Values(Way{"SharedMemory", {}}, Way{"Tcp", {{"TUTTI_SHM", "0"}}}),
                         [](const auto& way) { return std::string(way.param.name); });

/// A job that says whether it was recorded, and runs either way.
class WithoutRecording : public Recording {
 protected:
  void expect_works() {
    job_->tell(0, "stop");
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(job_->wait(rank, in(kPatience)), 0) << job_->said(rank);
  }
};

TEST_P(WithoutRecording, TheJobRunsWhenTurnedOff) {
  start(2, {{"TUTTI_MONITOR", "0"}});
  EXPECT_TRUE(look().processes.empty());
  expect_works();
}

TEST_P(WithoutRecording, TheJobRunsWhereThereIsNoRoom) {
  const std::string small = folder_.path() + "/small";
  std::filesystem::create_directory(small);
  if (::mount("tutti_test", small.c_str(), "tmpfs", 0, "size=1m,mode=0700") != 0)
    GTEST_SKIP() << "needs root, to mount a small tmpfs";
  start(2, {{"TUTTI_MONITOR_DIR", small}, {"TUTTI_LOG", "warn"}});
  expect_works();
  EXPECT_NE(job_->said(0).find("nothing is recorded: no room for"), std::string::npos) << job_->said(0);
  ASSERT_EQ(::umount2(small.c_str(), MNT_DETACH), 0);
}

TEST_P(WithoutRecording, ABadValueIsNamed) {
  start(2, {{"TUTTI_MONITOR_WINDOW", "0"}});
  expect_works();
  EXPECT_NE(job_->said(0).find("TUTTI_MONITOR_WINDOW='0' is not between 1 and 128"), std::string::npos)
      << job_->said(0);
}

INSTANTIATE_TEST_SUITE_P(Once, WithoutRecording, testing::Values(Way{"SharedMemory", {}}),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace tutti::integration
