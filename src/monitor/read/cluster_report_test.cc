#include "monitor/read/cluster_report.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace tutti::monitor {
namespace {

constexpr double kNow = 1000;

OperationView operation(std::uint32_t number, Collective collective = Collective::all_reduce) {
  OperationView view;
  view.number = number;
  view.collective = collective;
  view.bytes = 8192;
  view.signature = 5;
  view.entered = kNow - 4;
  return view;
}

PendingView waiting(std::uint32_t number, int awaited, double seconds) {
  PendingView pending;
  pending.operation = operation(number);
  pending.workers = {{0, 3}};
  pending.awaited = awaited;
  pending.awaited_worker = 0;
  pending.awaited_step = 3;
  pending.awaited_since = kNow - seconds;
  return pending;
}

/// A process with one rank of the communicator that its job began with.
ProcessView process(int rank, int size) {
  ProcessView view;
  view.pid = 100 + rank;
  view.alive = true;
  CommunicatorView communicator;
  communicator.state = CommunicatorRecord::alive;
  communicator.id = communicator.job = 7;
  communicator.rank = rank;
  communicator.size = size;
  communicator.name = "world";
  view.communicators.push_back(communicator);
  return view;
}

ProcessView that_waits(int rank, int size, std::uint32_t number, int awaited, double seconds) {
  ProcessView view = process(rank, size);
  view.communicators[0].pending.push_back(waiting(number, awaited, seconds));
  return view;
}

ProcessView that_did(int rank, int size, std::uint32_t number, double seconds_ago) {
  ProcessView view = process(rank, size);
  OperationView last = operation(number);
  last.done = kNow - seconds_ago;
  view.communicators[0].operations.push_back(last);
  return view;
}

ClusterReport of(std::vector<ProcessView> processes) {
  Snapshot snapshot;
  snapshot.now = kNow;
  snapshot.processes = std::move(processes);
  return analyze(snapshot);
}

const CommunicatorReport& world(const ClusterReport& report) { return report.jobs.at(0).communicators.at(0); }

TEST(ClusterReport, gathers_ranks_into_communicators_and_jobs) {
  const ClusterReport report = of({process(1, 8), process(0, 8), process(5, 8)});
  ASSERT_EQ(report.jobs.size(), 1U);
  ASSERT_EQ(report.jobs[0].communicators.size(), 1U);
  EXPECT_EQ(world(report).ranks.size(), 3U);
  EXPECT_EQ(world(report).ranks[2].rank, 5);
  EXPECT_EQ(text_of(world(report).not_seen), "2-4, 6-7");
  EXPECT_FALSE(report.is_wrong());
}

TEST(ClusterReport, names_the_rank_that_has_not_entered_and_not_those_that_wait) {
  // A ring: 3 waits for 2, 0 for 3, 1 for 0.
  const ClusterReport report = of({that_waits(0, 4, 17, 3, 12), that_waits(1, 4, 17, 0, 12), that_did(2, 4, 16, 12.5),
                                   that_waits(3, 4, 17, 2, 12)});
  ASSERT_EQ(world(report).blockers.size(), 1U);
  const Blocker& blocker = world(report).blockers[0];
  EXPECT_EQ(blocker.rank, 2);
  EXPECT_EQ(blocker.why, Blocker::Why::not_entered);
  EXPECT_EQ(blocker.waiters, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(blocker.text, "has not entered all_reduce #17 yet: last done all_reduce #16, 12.5 s ago");
  ASSERT_TRUE(report.is_wrong());
  EXPECT_EQ(report.findings[0].text,
            "world: rank 2 has not entered all_reduce #17 yet: last done all_reduce #16, 12.5 s ago; ranks 0-1, 3 wait "
            "for it, for 12.0 s");
}

TEST(ClusterReport, names_ranks_that_have_not_come_to_make_a_communicator) {
  ProcessView store, other;
  store.alive = other.alive = true;
  store.gatherings.push_back({5, 0, 4, true, kNow - 12, {0, 2}});
  other.gatherings.push_back({5, 2, 4, false, kNow - 11, {2}});
  const ClusterReport report = of({store, other});
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_TRUE(report.findings[0].wrong);
  EXPECT_EQ(report.findings[0].text, "ranks 0, 2 of 4 are making a communicator, for 12.0 s: ranks 1, 3 have not come");
  store.gatherings[0].began = other.gatherings[0].began = kNow - 0.5;
  EXPECT_TRUE(of({store, other}).findings.empty()) << "they have just begun";
}

TEST(ClusterReport, names_all_that_are_absent_though_only_the_first_is_awaited) {
  const ClusterReport report =
      of({that_waits(0, 4, 17, 1, 3), that_did(1, 4, 16, 3), that_did(2, 4, 15, 4), that_waits(3, 4, 17, 1, 3)});
  ASSERT_EQ(world(report).blockers.size(), 2U);
  EXPECT_EQ(world(report).blockers[1].rank, 2);
  EXPECT_FALSE(report.is_wrong()) << "three seconds are not yet late";
  EXPECT_EQ(report.findings.size(), 2U);
}

TEST(ClusterReport, says_nothing_of_waits_that_have_just_begun) {
  const ClusterReport report = of({that_waits(0, 2, 17, 1, 0.01), that_did(1, 2, 16, 0.02)});
  EXPECT_EQ(world(report).waits.size(), 1U);
  EXPECT_TRUE(report.findings.empty());
}

TEST(ClusterReport, takes_no_wait_for_one_that_is_over) {
  ProcessView gone_on = that_waits(0, 2, 17, 1, 20);
  gone_on.communicators[0].pending[0].workers[0].steps_done = 4;
  EXPECT_TRUE(world(of({gone_on, process(1, 2)})).waits.empty());
}

TEST(ClusterReport, follows_a_chain_to_a_rank_of_another_host) {
  const ClusterReport report = of({that_waits(0, 4, 17, 1, 20), that_waits(1, 4, 17, 3, 20)});
  ASSERT_EQ(world(report).blockers.size(), 1U);
  EXPECT_EQ(world(report).blockers[0].rank, 3);
  EXPECT_EQ(world(report).blockers[0].why, Blocker::Why::not_seen);
}

TEST(ClusterReport, tells_a_circle_apart_from_a_rank_at_work) {
  const ClusterReport circle = of({that_waits(0, 2, 17, 1, 20), that_waits(1, 2, 17, 0, 20)});
  ASSERT_EQ(world(circle).blockers.size(), 1U);
  EXPECT_EQ(world(circle).blockers[0].why, Blocker::Why::circle);
  EXPECT_EQ(world(circle).blockers[0].text, "ranks 0-1 wait for one another, and nothing moves");
  const ClusterReport work = of({that_waits(0, 2, 17, 1, 20), that_waits(1, 2, 17, -1, 20)});
  ASSERT_EQ(world(work).blockers.size(), 1U);
  EXPECT_EQ(world(work).blockers[0].why, Blocker::Why::at_work);
  EXPECT_EQ(world(work).blockers[0].text, "is at work in all_reduce #17, worker 0 step 3");
}

TEST(ClusterReport, says_where_a_process_was_killed) {
  ProcessView killed = that_waits(1, 2, 17, -1, 0);
  killed.alive = false;
  const ClusterReport report = of({that_waits(0, 2, 17, 1, 0.5), killed});
  ASSERT_TRUE(report.is_wrong());
  EXPECT_EQ(report.findings[0].text, "world: rank 1 (pid 101) was killed in all_reduce #17, worker 0 step 3");
  EXPECT_EQ(world(report).blockers.at(0).why, Blocker::Why::killed);
}

TEST(ClusterReport, finds_nothing_wrong_with_ranks_that_were_told_to_end) {
  ProcessView first = that_waits(0, 2, 17, 1, 0.5), second = process(1, 2);
  second.communicators[0].state = CommunicatorRecord::broken;
  second.communicators[0].error = "rank 0 died";
  for (ProcessView* const each : {&first, &second}) {
    each->alive = false;
    each->ended = true;
    each->told_to_end = SIGTERM;
  }
  const ClusterReport told = of({first, second});
  EXPECT_TRUE(told.findings.empty());
  EXPECT_EQ(world(told).state, CommunicatorRecord::closed);
  EXPECT_EQ(end_of(world(told).ranks[0]), "was ended by SIGTERM");
  first.ended = false;
  first.told_to_end = 0;
  const ClusterReport killed = of({first, second});
  ASSERT_EQ(killed.findings.size(), 1U);
  EXPECT_TRUE(killed.is_wrong());
  EXPECT_EQ(end_of(world(killed).ranks[0]), "was killed");
}

TEST(ClusterReport, takes_no_rank_that_is_stopped_for_one_that_waits) {
  ProcessView stopped = that_waits(1, 2, 17, 0, 12);
  stopped.stopped = true;
  const ClusterReport report = of({that_waits(0, 2, 17, 1, 12), stopped});
  ASSERT_EQ(world(report).blockers.size(), 1U);
  EXPECT_EQ(world(report).blockers[0].rank, 1);
  EXPECT_EQ(world(report).blockers[0].waiters, std::vector<int>{0});
}

TEST(ClusterReport, believes_the_living_where_two_processes_claim_a_rank) {
  ProcessView killed = process(0, 2);
  killed.alive = false;
  killed.pid = 999;
  for (const auto& order : {std::vector{killed, process(0, 2)}, std::vector{process(0, 2), killed}}) {
    const ClusterReport report = of(order);
    ASSERT_EQ(world(report).ranks.size(), 1U);
    EXPECT_EQ(world(report).ranks[0].pid, 100);
  }
}

TEST(ClusterReport, sees_that_ranks_called_different_operations_under_one_number) {
  ProcessView other = that_waits(2, 3, 17, 0, 1);
  other.communicators[0].pending[0].operation.collective = Collective::broadcast;
  other.communicators[0].pending[0].operation.signature = 6;
  const ClusterReport report = of({that_waits(0, 3, 17, 2, 1), that_waits(1, 3, 17, 2, 1), other});
  ASSERT_EQ(world(report).mismatches.size(), 1U);
  EXPECT_EQ(world(report).mismatches[0].ranks, std::vector<int>{2});
  EXPECT_EQ(world(report).mismatches[0].text,
            "as #17 rank 2 called broadcast of 8.2 kB int8 with root 0, ranks 0-1 all_reduce of 8.2 kB int8 sum");
  EXPECT_TRUE(report.is_wrong());
}

LaneView lane(std::uint32_t index, std::uint64_t bytes) {
  LaneView view;
  view.index = index;
  view.state = "healthy";
  view.peer = 1;
  view.peer_name = "b";
  view.name = "tcp";
  view.done_bytes = bytes;
  return view;
}

TEST(ClusterReport, judges_lanes_by_state_and_condition_and_tells_their_shares) {
  ProcessView view = process(0, 2);
  view.lanes = {lane(0, 100), lane(1, 200), lane(2, 100)};
  view.lanes[0].state = "held down";
  view.lanes[0].reason = "no carrier";
  view.lanes[0].since = kNow - 2;
  view.lanes[1].condition = Condition::dropped;
  view.lanes[1].cause = Cause::path_congested;
  view.lanes[1].rate = 5e8;
  view.lanes[1].usual = 1e9;
  const ClusterReport report = of({view});
  EXPECT_EQ(report.processes[0].lanes[1].share, 0.5);
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_TRUE(report.findings[0].wrong);
  EXPECT_EQ(report.findings[0].text, "rank 0: lane 0 to rank 1 (tcp) is held down for 2.0 s: no carrier");
  EXPECT_FALSE(report.findings[1].wrong);
  EXPECT_EQ(report.findings[1].text,
            "rank 0: lane 1 to rank 1 (tcp) has dropped: 500 MB/s, usually 1.0 GB/s (path_congested)");
}

TEST(ClusterReport, does_not_blame_a_lane_that_was_given_less_to_send) {
  ProcessView view = process(0, 2);
  view.lanes = {lane(0, 100)};
  view.lanes[0].condition = Condition::dropped;
  view.lanes[0].cause = Cause::sender_starved;
  EXPECT_TRUE(of({view}).findings.empty());
}

TEST(ClusterReport, leaves_closed_communicators_out_unless_they_are_asked_for) {
  ProcessView view = process(0, 2);
  view.communicators[0].state = CommunicatorRecord::closed;
  Snapshot snapshot;
  snapshot.processes = {view};
  EXPECT_TRUE(analyze(snapshot).jobs.at(0).communicators.empty());
  EXPECT_EQ(analyze(snapshot, {.with_closed = true}).jobs.at(0).communicators.size(), 1U);
}

}  // namespace
}  // namespace tutti::monitor
