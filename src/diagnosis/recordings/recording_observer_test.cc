#include "diagnosis/recordings/recording_observer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "diagnosis/diagnose.hpp"
#include "diagnosis/merge/merge_telemetry.hpp"

namespace tutti::diagnosis {
namespace {

using monitor::CommunicatorRecord;
using monitor::CommunicatorView;
using monitor::LaneView;
using monitor::OperationView;
using monitor::PendingView;
using monitor::ProcessView;
using monitor::Snapshot;

constexpr double kNow = 1000;

OperationView operation(std::uint32_t number, double entered, double done = 0) {
  OperationView view;
  view.number = number;
  view.bytes = 8192;
  view.signature = 5;
  view.entered = entered;
  view.done = done;
  return view;
}

/// A rank that has done an operation each 0.1 s, and is through with #19 since 5 s.
ProcessView process(int rank, int size, std::uint64_t job = 7) {
  ProcessView view;
  view.file = std::to_string(job) + "-" + std::to_string(rank);
  view.pid = 100 + rank;
  view.host = "node";
  view.alive = true;
  view.command = "train";
  CommunicatorView communicator;
  communicator.state = CommunicatorRecord::alive;
  communicator.id = communicator.job = job;
  communicator.rank = rank;
  communicator.size = size;
  communicator.hosts = 1;
  communicator.name = "world";
  for (std::uint32_t i = 0; i < 20; ++i) {
    const double done = kNow - 7 + 0.1 * i;
    communicator.operations.push_back(operation(i, done - 0.01, done));
  }
  view.communicators.push_back(communicator);
  return view;
}

ProcessView that_waits(int rank, int size, std::uint32_t steps_done = 3) {
  ProcessView view = process(rank, size);
  PendingView pending;
  pending.operation = operation(20, kNow - 4);
  pending.workers = {{0, steps_done}};
  pending.awaited = 2;
  view.communicators[0].pending.push_back(pending);
  return view;
}

Snapshot at(double now, std::vector<ProcessView> processes) {
  Snapshot snapshot;
  snapshot.now = now;
  snapshot.processes = std::move(processes);
  return snapshot;
}

std::vector<FaultClass> faults_of(const Telemetry& telemetry) {
  std::vector<FaultClass> faults;
  for (const Verdict& each : diagnose(telemetry)) faults.push_back(each.fault);
  return faults;
}

using Faults = std::vector<FaultClass>;

ProcessView that_gathers(int rank, std::vector<int> joined, bool serves = false) {
  ProcessView view = process(rank, 3);
  view.communicators.clear();
  view.gatherings.push_back({77, rank, 3, serves, kNow - 20, std::move(joined)});
  return view;
}

TEST(RecordingObserver, names_ranks_that_have_not_come) {
  RecordingObserver observer;
  const auto telemetry = observer.observe(at(kNow, {that_gathers(0, {0, 2}, true), that_gathers(2, {2})}), {});
  ASSERT_EQ(telemetry.size(), 1U);
  EXPECT_EQ(telemetry[0].job, 77U);
  const auto verdicts = diagnose(telemetry[0]);
  ASSERT_EQ(faults_of(telemetry[0]), Faults{FaultClass::missing_at_start});
  ASSERT_EQ(verdicts[0].suspects.size(), 1U);
  EXPECT_EQ(verdicts[0].suspects[0].rank, 1);
}

TEST(RecordingObserver, knows_who_has_come_without_the_recording_of_the_store) {
  RecordingObserver observer;
  const auto telemetry = observer.observe(at(kNow, {that_gathers(1, {1}), that_gathers(2, {2})}), {});
  const auto verdicts = diagnose(telemetry.at(0));
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].suspects[0].rank, 0);
  ProcessView dead = that_gathers(0, {0});
  dead.alive = false;
  const auto again = observer.observe(at(kNow, {dead, that_gathers(1, {1}), that_gathers(2, {2})}), {});
  EXPECT_EQ(diagnose(again.at(0)).size(), 1U) << "whoever died has not come";
}

TEST(RecordingObserver, adds_a_new_communicator_to_the_job_that_makes_it) {
  RecordingObserver observer;
  ProcessView waits = process(0, 3);
  waits.gatherings.push_back({77, 1, 3, true, kNow - 20, {0, 1}});
  const auto telemetry = observer.observe(at(kNow, {waits, process(1, 3), process(2, 3)}), {});
  ASSERT_EQ(telemetry.size(), 1U);
  EXPECT_EQ(telemetry[0].job, 7U);
  ASSERT_EQ(telemetry[0].gatherings.size(), 1U);
  ASSERT_EQ(telemetry[0].gatherings[0].waiting.size(), 1U);
  EXPECT_EQ(telemetry[0].gatherings[0].waiting[0].process, 0);
}

TEST(RecordingObserver, leaves_out_what_does_not_hold_together) {
  RecordingObserver observer;
  ProcessView hostile = process(0, 2);
  LaneView lane;
  lane.index = 1 << 16;
  lane.peer = 1;
  lane.state = "healthy";
  hostile.lanes.push_back(lane);
  const auto telemetry = observer.observe(at(kNow, {hostile, process(1, 2), process(0, 1, 8)}), {});
  ASSERT_EQ(telemetry.size(), 1U);
  EXPECT_EQ(telemetry[0].job, 8U);
}

TEST(RecordingObserver, keeps_no_delay_that_is_not_finite) {
  RecordingObserver observer;
  ProcessView fast = process(0, 2);
  LaneView lane;
  lane.peer = 1;
  lane.state = "healthy";
  lane.usual = 1e308;
  for (const double seconds : {1.0, 1e300, 1e304}) {
    lane.busy = seconds;
    lane.done_bytes += 8 << 20;
    fast.lanes = {lane};
    const auto telemetry = observer.observe(at(kNow + seconds / 1e300, {fast, process(1, 2)}), {});
    for (const DelayFacts& delay : telemetry.at(0).delays) EXPECT_TRUE(std::isfinite(delay.relative));
  }
}

TEST(RecordingObserver, names_the_rank_that_has_not_entered) {
  RecordingObserver observer;
  const auto telemetry = observer.observe(at(kNow, {that_waits(0, 3), that_waits(1, 3), process(2, 3)}), {});
  ASSERT_EQ(telemetry.size(), 1U);
  EXPECT_NEAR(telemetry[0].communicators[0].rhythm.period, 0.1, 1e-6);
  const auto verdicts = diagnose(telemetry[0]);
  ASSERT_EQ(faults_of(telemetry[0]), Faults{FaultClass::not_entered});
  EXPECT_EQ(verdicts[0].suspects[0].pid, 102);
}

TEST(RecordingObserver, sees_whether_counters_move_between_two_looks) {
  RecordingObserver moving, still;
  for (RecordingObserver* const observer : {&moving, &still})
    observer->observe(at(kNow, {that_waits(0, 2), that_waits(1, 2)}), {});
  const auto moved = moving.observe(at(kNow + 0.3, {that_waits(0, 2, 4), that_waits(1, 2)}), {});
  EXPECT_TRUE(faults_of(moved[0]).empty());
  const auto stood = still.observe(at(kNow + 0.3, {that_waits(0, 2), that_waits(1, 2)}), {});
  EXPECT_EQ(faults_of(stood[0]), Faults{FaultClass::transfer_stuck});
}

TEST(RecordingObserver, keeps_jobs_apart) {
  ProcessView dead = process(0, 1, 8);
  dead.alive = false;
  RecordingObserver observer;
  const auto telemetry = observer.observe(at(kNow, {process(0, 2), process(1, 2), dead}), {});
  ASSERT_EQ(telemetry.size(), 2U);
  EXPECT_TRUE(faults_of(telemetry[0]).empty());
  EXPECT_EQ(faults_of(telemetry[1]), Faults{FaultClass::crashed});
}

TEST(RecordingObserver, takes_who_is_accused_from_the_events_of_a_dead_job) {
  std::vector<ProcessView> processes;
  for (int rank = 0; rank < 3; ++rank) {
    processes.push_back(process(rank, 3));
    ProcessView& view = processes.back();
    view.alive = false;
    if (rank == 1) continue;
    view.communicators[0].state = CommunicatorRecord::broken;
    monitor::EventView event;
    event.kind = monitor::EventKind::communicator_broken;
    event.communicator = 7;
    event.peer = 1;
    view.events.push_back(event);
  }
  RecordingObserver observer;
  const auto telemetry = observer.observe(at(kNow, processes), {});
  const auto verdicts = diagnose(telemetry[0]);
  ASSERT_EQ(faults_of(telemetry[0]), Faults{FaultClass::crashed});
  EXPECT_EQ(verdicts[0].suspects[0].rank, 1);
}

TEST(RecordingObserver, says_what_share_of_the_time_a_process_had_no_core) {
  RecordingObserver observer;
  observer.observe(at(kNow, {process(0, 1)}), {{100, 5.0}});
  const auto telemetry = observer.observe(at(kNow + 2, {process(0, 1)}), {{100, 6.0}});
  EXPECT_NEAR(telemetry[0].processes[0].starved, 0.5, 1e-9);
}

LaneView lane(int peer, std::uint32_t index, double busy, std::uint64_t bytes) {
  LaneView view;
  view.slot = static_cast<std::uint32_t>(peer) * 2 + index;
  view.state = "healthy";
  view.index = index;
  view.peer = peer;
  view.busy = busy;
  view.done_bytes = bytes;
  return view;
}

/// Four ranks, of which each sends to each other on two lanes, 10 MB in 10 ms between two looks.
std::vector<ProcessView> busy_lanes(int looks, double slow) {
  std::vector<ProcessView> processes;
  for (int rank = 0; rank < 4; ++rank) {
    processes.push_back(process(rank, 4));
    for (int peer = 0; peer < 4; ++peer)
      for (std::uint32_t index = 0; index < 2; ++index)
        if (peer != rank) {
          const double factor = rank == 1 ? slow : 1;
          processes.back().lanes.push_back(
              lane(peer, index, looks * 0.01 * factor, static_cast<std::uint64_t>(looks) * 10'000'000));
        }
  }
  return processes;
}

TEST(RecordingObserver, measures_how_fast_lanes_are_between_looks) {
  for (const double slow : {1.0, 2.0}) {
    RecordingObserver observer;
    std::vector<Telemetry> telemetry;
    for (int look = 1; look <= 10; ++look) telemetry = observer.observe(at(kNow + look, busy_lanes(look, slow)), {});
    EXPECT_EQ(telemetry[0].delays.size(), 24U);
    EXPECT_EQ(faults_of(telemetry[0]), slow == 1.0 ? Faults{} : Faults{FaultClass::slow_sender});
  }
}

TEST(RecordingObserver, does_not_judge_by_a_single_pace) {
  RecordingObserver observer;
  observer.observe(at(kNow + 1, busy_lanes(1, 1.5)), {});
  const auto telemetry = observer.observe(at(kNow + 2, busy_lanes(2, 1.5)), {});
  EXPECT_TRUE(faults_of(telemetry[0]).empty());
}

TEST(RecordingObserver, does_not_judge_by_a_few_paces_that_agree_by_chance) {
  RecordingObserver observer;
  std::vector<Telemetry> telemetry;
  for (int look = 1; look <= 4; ++look) telemetry = observer.observe(at(kNow + look, busy_lanes(look, 1.5)), {});
  EXPECT_TRUE(faults_of(telemetry[0]).empty());
  for (int look = 5; look <= 17; ++look) telemetry = observer.observe(at(kNow + look, busy_lanes(look, 1.5)), {});
  EXPECT_EQ(faults_of(telemetry[0]), Faults{FaultClass::slow_sender});
}

TEST(RecordingObserver, measures_a_lane_that_sends_little_between_two_looks) {
  RecordingObserver observer;
  std::vector<Telemetry> telemetry;
  for (int look = 1; look <= 50; ++look) {  // 200 kB each
    std::vector<ProcessView> processes = busy_lanes(look, 2);
    for (ProcessView& view : processes)
      for (LaneView& each : view.lanes) each.done_bytes /= 50;
    telemetry = observer.observe(at(kNow + 0.1 * look, processes), {});
  }
  EXPECT_EQ(faults_of(telemetry[0]), Faults{FaultClass::slow_sender});
}

TEST(RecordingObserver, does_not_take_a_burst_at_the_start_for_what_a_path_can_do) {
  RecordingObserver observer;
  std::vector<Telemetry> telemetry;
  for (int look = 1; look <= 30; ++look) {
    std::vector<ProcessView> processes = busy_lanes(look, 1);
    for (ProcessView& view : processes)  // path 1 was three times as fast between the first looks
      for (LaneView& each : view.lanes)
        if (each.index == 1) each.busy -= 2.0 / 3 * 0.01 * std::min(look, 3);
    telemetry = observer.observe(at(kNow + look, processes), {});
    EXPECT_TRUE(faults_of(telemetry[0]).empty()) << "look " << look;
  }
}

TEST(RecordingObserver, counts_how_often_a_lane_was_lost) {
  std::vector<ProcessView> processes{process(0, 2), process(1, 2)};
  processes[0].lanes.push_back(lane(1, 1, 0, 0));
  for (int i = 0; i < 4; ++i) {
    monitor::EventView event;
    event.kind = monitor::EventKind::lane_down;
    event.peer = 1;
    event.lane = 1;
    event.at = kNow - 10 * i;
    processes[0].events.push_back(event);
  }
  RecordingObserver observer;
  const auto telemetry = observer.observe(at(kNow, processes), {});
  EXPECT_EQ(faults_of(telemetry[0]), Faults{FaultClass::flapping});
}

/// Two hosts that look at their own half of the processes each, and what both say together.
class TwoHosts {
 public:
  Telemetry look(double now, std::vector<ProcessView> processes) {
    const std::size_t half = processes.size() / 2;
    std::vector<ProcessView> right(processes.begin() + static_cast<std::ptrdiff_t>(half), processes.end());
    processes.resize(half);
    for (ProcessView& process : processes) set_host(process, "left");
    for (ProcessView& process : right) set_host(process, "right");
    const auto left_says = left_.observe(at(now, processes), {}), right_says = right_.observe(at(now, right), {});
    const HostTelemetry hosts[] = {{&left_says[0], now, 0, true}, {&right_says[0], now, 0, true}};
    return merge_telemetry(hosts)[0];
  }

 private:
  static void set_host(ProcessView& process, const std::string& host) {
    process.host = host;
    process.communicators[0].hosts = 2;
  }

  RecordingObserver left_{RecordingObserver::Reach::job}, right_{RecordingObserver::Reach::job};
};

TEST(RecordingObserver, measures_lanes_between_hosts) {
  TwoHosts hosts;
  Telemetry telemetry;
  for (int look = 1; look <= 10; ++look) telemetry = hosts.look(kNow + look, busy_lanes(look, 2));
  EXPECT_EQ(telemetry.processes.size(), 4U);
  EXPECT_EQ(telemetry.delays.size(), 24U);
  // What it sends within its host is compared apart, and slow, too.
  ASSERT_EQ(faults_of(telemetry), (Faults{FaultClass::slow_link, FaultClass::slow_sender}));
  for (const Verdict& verdict : diagnose(telemetry)) EXPECT_EQ(verdict.suspects[0].rank, 1);
}

TEST(RecordingObserver, names_a_straggler_that_only_ranks_of_another_host_wait_for) {
  std::vector<ProcessView> processes;
  for (int rank = 0; rank < 4; ++rank) {
    processes.push_back(process(rank, 4));
    auto& operations = processes.back().communicators[0].operations;
    operations.clear();
    for (std::uint32_t i = 0; i < 64; ++i) {
      const double done = kNow - 7 + 0.1 * i;
      // Rank 0 comes 30 ms after the others.
      operations.push_back(operation(i, done - (rank == 0 ? 0.001 : 0.031), done));
    }
  }
  TwoHosts hosts;
  const Telemetry telemetry = hosts.look(kNow, processes);
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(telemetry), Faults{FaultClass::straggler});
  EXPECT_EQ(verdicts[0].suspects[0].rank, 0);
}

/// Two ranks, of which the first found chunks of the other corrupted: both know.
std::vector<ProcessView> corrupting(std::uint64_t chunks) {
  std::vector<ProcessView> processes{process(0, 2), process(1, 2)};
  processes[0].lanes.push_back(lane(1, 1, 0, 0));
  processes[0].lanes[0].corrupted_chunks = chunks;
  processes[1].lanes.push_back(lane(0, 1, 0, 0));
  processes[1].lanes[0].returned_chunks = chunks;
  for (ProcessView& each : processes) each.lanes[0].corrupted_at = kNow - 1;
  return processes;
}

TEST(RecordingObserver, tells_of_corrupted_chunks_who_sent_and_who_received_them) {
  RecordingObserver observer;
  const auto telemetry = observer.observe(at(kNow, corrupting(5)), {});
  ASSERT_EQ(telemetry[0].corruptions.size(), 1U);
  EXPECT_EQ(telemetry[0].corruptions[0].chunks, 5U);
  const auto verdicts = diagnose(telemetry[0]);
  ASSERT_EQ(faults_of(telemetry[0]), Faults{FaultClass::corrupted});
  EXPECT_EQ(verdicts[0].suspects[0].rank, 1);
  EXPECT_EQ(verdicts[0].suspects[0].peer, 0);
  EXPECT_EQ(verdicts[0].suspects[0].path, 1);
}

TEST(RecordingObserver, believes_the_sender_where_the_receiver_is_on_another_host) {
  std::vector<ProcessView> processes = corrupting(5);
  processes.erase(processes.begin());
  processes[0].communicators[0].hosts = 2;
  RecordingObserver observer;
  const auto telemetry = observer.observe(at(kNow, processes), {});
  const auto verdicts = diagnose(telemetry[0]);
  ASSERT_EQ(faults_of(telemetry[0]), Faults{FaultClass::corrupted});
  EXPECT_EQ(verdicts[0].suspects[0].rank, 1);
  EXPECT_EQ(verdicts[0].suspects[0].peer, 0);
}

TEST(RecordingObserver, a_lane_that_is_lost_because_it_corrupts_does_not_flap_and_is_not_down) {
  std::vector<ProcessView> processes = corrupting(5);
  for (ProcessView& each : processes) {
    each.lanes[0].state = "held down";
    each.lanes[0].reason = "closed";
    for (int i = 0; i < 4; ++i) {
      monitor::EventView event;
      event.kind = monitor::EventKind::lane_down;
      event.peer = each.lanes[0].peer;
      event.lane = 1;
      event.at = kNow - 10 * i;
      each.events.push_back(event);
    }
  }
  RecordingObserver observer;
  EXPECT_EQ(faults_of(observer.observe(at(kNow, processes), {})[0]), Faults{FaultClass::corrupted});
  for (ProcessView& each : processes) each.lanes[0].corrupted_at = 0;
  EXPECT_EQ(faults_of(observer.observe(at(kNow + 1, processes), {})[0]), Faults{FaultClass::flapping});
}

TEST(RecordingObserver, forgets_what_was_corrupted_long_ago) {
  std::vector<ProcessView> processes = corrupting(5);
  for (ProcessView& each : processes) each.lanes[0].corrupted_at = kNow - 1000;
  RecordingObserver observer;
  EXPECT_TRUE(faults_of(observer.observe(at(kNow, processes), {})[0]).empty());
}

}  // namespace
}  // namespace tutti::diagnosis
