#include "monitor/trace/trace.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "monitor/trace/trace_checker_test_kit.hpp"
#include "monitor/trace/trace_merge.hpp"

namespace tutti::monitor {
namespace {

using Complaints = std::vector<std::string>;

OperationView operation(std::uint64_t index, double entered, double met, double done) {
  OperationView view;
  view.index = index;
  view.number = static_cast<std::uint32_t>(index);
  view.collective = Collective::all_reduce;
  view.type = DataType::float32;
  view.bytes = 4096;
  view.program = "ring";
  view.entered = entered;
  view.waited = met > 0 ? met - entered : 0;
  view.done = done;
  return view;
}

CommunicatorView communicator(int rank, int size, std::uint64_t id = 0xabc) {
  CommunicatorView view;
  view.state = CommunicatorRecord::alive;
  view.id = id;
  view.rank = rank;
  view.size = size;
  return view;
}

ProcessView process(int pid, std::vector<CommunicatorView> communicators) {
  ProcessView view;
  view.file = "/dev/shm/" + std::to_string(pid);
  view.pid = pid;
  view.alive = true;
  view.host = "hosta";
  view.clock_error = 0;
  view.communicators = std::move(communicators);
  return view;
}

Snapshot snapshot(std::vector<ProcessView> processes, double now = 100) {
  Snapshot taken;
  taken.now = now;
  taken.processes = std::move(processes);
  return taken;
}

class TraceTest : public testing::Test {
 protected:
  TraceTest() {
    char name[] = "/tmp/tutti-trace-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~TraceTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "trace") const { return folder_ + "/" + name + ".json"; }

  /// A trace of these snapshots.
  TraceChecker trace(const std::vector<Snapshot>& snapshots, const std::string& name = "trace") {
    auto file = TraceFile::create(path(name));
    Tracer tracer(**file);
    for (const Snapshot& each : snapshots) tracer.add(each);
    tracer.finish(snapshots.back());
    written_ = tracer.written();
    missed_ = tracer.missed();
    fill_ = tracer.fill();
    unsure_ = tracer.unsure();
    EXPECT_TRUE((*file)->close(tracer.about()));
    return TraceChecker(path(name));
  }

  std::string folder_;
  TraceCounts written_, missed_;
  double fill_ = 0;
  std::vector<std::string> unsure_;
};

TEST_F(TraceTest, AnOperationIsASliceWithItsWaitingWithin) {
  CommunicatorView view = communicator(3, 4);
  view.operations = {operation(0, 10, 10.5, 12)};
  const TraceChecker checked = trace({snapshot({process(77, {view})})});
  EXPECT_EQ(checked.wrong(), Complaints{});
  const auto slice = checked.find("X", "all_reduce").at(0);
  EXPECT_EQ(checked.process(slice), "rank 3 on hosta, process 77");
  EXPECT_EQ(checked.thread(slice), "operations");
  EXPECT_DOUBLE_EQ(slice["ts"].get<double>(), 10e6);
  EXPECT_DOUBLE_EQ(slice["dur"].get<double>(), 2e6);
  EXPECT_EQ(slice["args"]["bytes"], 4096);
  EXPECT_EQ(slice["args"]["program"], "ring");
  EXPECT_DOUBLE_EQ(slice["args"]["waited_us"].get<double>(), 0.5e6);
  const auto waiting = checked.find("X", "waiting for others").at(0);
  EXPECT_EQ(waiting["tid"], slice["tid"]);
  EXPECT_DOUBLE_EQ(waiting["dur"].get<double>(), 0.5e6);
}

TEST_F(TraceTest, RanksAreDrawnOnTheClockOfTheFirstProcess) {
  CommunicatorView view = communicator(1, 2);
  view.operations = {operation(0, 1010, 0, 1011)};
  ProcessView ahead = process(1, {view});
  ahead.clock_offset = -1000'000'000'000;
  ahead.clock_error = 15'000;
  const TraceChecker checked = trace({snapshot({ahead})});
  EXPECT_DOUBLE_EQ(checked.find("X", "all_reduce").at(0)["ts"].get<double>(), 10e6);
  EXPECT_EQ(checked.find("M", "process_labels").at(0)["args"]["labels"], "clock within 15.0 us");
  EXPECT_TRUE(unsure_.empty());
}

TEST_F(TraceTest, AProcessWhoseClockIsNotKnownIsNamed) {
  ProcessView lonely = process(5, {communicator(0, 1)});
  lonely.clock_error.reset();
  trace({snapshot({lonely})});
  EXPECT_EQ(unsure_, Complaints{"process 5 on hosta"});
}

TEST_F(TraceTest, WhatWasWrittenIsNotWrittenAgain) {
  CommunicatorView view = communicator(0, 1);
  view.operations = {operation(0, 1, 0, 2), operation(1, 2, 0, 3)};
  const Snapshot before = snapshot({process(1, {view})});
  view.operations.push_back(operation(2, 3, 0, 4));
  const TraceChecker checked = trace({before, before, snapshot({process(1, {view})})});
  EXPECT_EQ(checked.find("X", "all_reduce").size(), 3U);
  EXPECT_EQ(written_.operations, 3U);
  EXPECT_EQ(missed_.operations, 0U);
}

TEST_F(TraceTest, WhatWasOverwrittenIsCounted) {
  CommunicatorView view = communicator(0, 1);
  view.operations = {operation(5, 1, 0, 2)};  // what was before we came is not missed
  const Snapshot before = snapshot({process(1, {view})});
  view.operations = {operation(10, 3, 0, 4)};
  trace({before, snapshot({process(1, {view})})});
  EXPECT_EQ(missed_.operations, 4U);
  EXPECT_EQ(fill_, 1);
}

TEST_F(TraceTest, ARingThatBeginsAnewIsReadFromItsBeginning) {
  ProcessView owner = process(1, {communicator(0, 2)});
  LaneView lane;
  lane.index = 1;
  lane.peer_name = "hostb";
  lane.chunks = {{7, 1, 2, 100, 1, 0, 0, 1e9}};
  owner.lanes = {lane};
  const Snapshot before = snapshot({owner});
  owner.lanes[0].chunks = {{0, 3, 4, 100, 2, 0, 0, 1e9}};
  trace({before, snapshot({owner})});
  EXPECT_EQ(written_.chunks, 2U);
  EXPECT_EQ(missed_.chunks, 0U);
}

TEST_F(TraceTest, ALaneHasItsChunksItsRateAndNoRateWhileThereIsNothingToSend) {
  ProcessView owner = process(1, {communicator(0, 2)});
  LaneView lane;
  lane.index = 1;
  lane.peer_name = "hostb";
  // Two that overlap; then nothing to send for a second.
  lane.chunks = {
      {0, 1, 1.002, 65536, 1, 0, 0, 1e9}, {1, 1.001, 1.003, 65536, 1, 0, 0, 2e9}, {2, 2, 2.001, 8, 2, 0, 0, 3e9}};
  owner.lanes = {lane};
  const TraceChecker checked = trace({snapshot({owner})});
  EXPECT_EQ(checked.wrong(), Complaints{});
  const auto chunks = checked.find("X", "65536 B");
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(checked.thread(chunks[0]), "lane 1 to hostb");
  EXPECT_EQ(checked.thread(chunks[1]), "lane 1 to hostb (2)");
  std::vector<double> rates;
  for (const auto& each : checked.find("C", "lane 1 to hostb")) rates.push_back(each["args"]["MB/s"]);
  EXPECT_EQ(rates, (std::vector<double>{1000, 2000, 0, 3000}));
}

TEST_F(TraceTest, StepsLieOnTheTracksOfTheirWorkers) {
  CommunicatorView view = communicator(0, 2);
  view.steps = {{0, 9, 0, 3, 1, 1.0, 1.5}, {1, 9, 1, 0, 0, 1.1, 1.2}};
  const TraceChecker checked = trace({snapshot({process(1, {view})})});
  EXPECT_EQ(checked.wrong(), Complaints{});
  EXPECT_EQ(checked.thread(checked.find("X", "step 3, tile 1").at(0)), "worker 0");
  EXPECT_EQ(checked.thread(checked.find("X", "step 0, tile 0").at(0)), "worker 1");
}

TEST_F(TraceTest, EventsAreMomentsOrLastedAWhile) {
  ProcessView owner = process(1, {communicator(0, 2)});
  EventView down;
  down.at = 5;
  down.kind = EventKind::lane_down;
  down.text = "reset by peer";
  EventView recovered;
  recovered.index = 1;
  recovered.began = 4;
  recovered.at = 6;
  recovered.kind = EventKind::lane_recovered;
  recovered.cause = Cause::path_congested;
  recovered.lane = 1;
  owner.events = {down, recovered};
  const TraceChecker checked = trace({snapshot({owner})});
  EXPECT_EQ(checked.wrong(), Complaints{});
  EXPECT_EQ(checked.find("i", "lane_down").at(0)["args"]["text"], "reset by peer");
  const auto lasted = checked.find("X", "lane_recovered, lane 1: path_congested").at(0);
  EXPECT_DOUBLE_EQ(lasted["dur"].get<double>(), 2e6);
  EXPECT_EQ(lasted["args"]["cause"], "path_congested");
}

TEST_F(TraceTest, AnOperationInWhichARankWasKilledReachesUpToNow) {
  CommunicatorView view = communicator(0, 2);
  PendingView pending;
  pending.operation = operation(8, 20, 0, 0);
  pending.awaited = 1;
  pending.awaited_worker = 0;
  pending.awaited_step = 2;
  pending.awaited_since = 21;
  pending.workers = {{4, 2}};
  view.pending = {pending};
  ProcessView killed = process(1, {view});
  killed.alive = false;
  const TraceChecker checked = trace({snapshot({killed}, 50)});
  EXPECT_EQ(checked.wrong(), Complaints{});
  const auto slice = checked.find("X", "all_reduce (killed in it)").at(0);
  EXPECT_DOUBLE_EQ(slice["dur"].get<double>(), 30e6);
  EXPECT_EQ(slice["args"]["waits_for_rank"], 1);
  EXPECT_EQ(slice["args"]["waits_in"], "worker 0 step 2");
  EXPECT_EQ(slice["args"]["worker 0"], "tile 4, 2 steps done");
  EXPECT_DOUBLE_EQ(checked.find("X", "waiting for rank 1").at(0)["ts"].get<double>(), 21e6);
}

TEST_F(TraceTest, RanksThatAreThreadsAreDrawnApart) {
  CommunicatorView first = communicator(0, 2);
  CommunicatorView second = communicator(1, 2);
  first.operations = second.operations = {operation(0, 1, 0, 2)};
  const TraceChecker checked = trace({snapshot({process(9, {first, second})})});
  EXPECT_EQ(checked.wrong(), Complaints{});
  const auto slices = checked.find("X", "all_reduce");
  EXPECT_EQ(checked.process(slices.at(0)), "rank 0 on hosta, process 9");
  EXPECT_EQ(checked.process(slices.at(1)), "rank 1 on hosta, process 9");
}

TEST_F(TraceTest, AnotherCommunicatorOfAProcessHasTracksOfItsOwn) {
  CommunicatorView world = communicator(2, 4, 1);
  CommunicatorView half = communicator(0, 2, 2);
  half.name = "even";
  world.operations = {operation(0, 1, 0, 3)};
  half.operations = {operation(0, 2, 0, 4)};
  const TraceChecker checked = trace({snapshot({process(9, {world, half})})});
  EXPECT_EQ(checked.wrong(), Complaints{});
  const auto slices = checked.find("X", "all_reduce");
  EXPECT_EQ(checked.thread(slices.at(0)), "operations");
  EXPECT_EQ(checked.thread(slices.at(1)), "even (rank 0 of 2): operations");
  EXPECT_EQ(slices.at(0)["pid"], slices.at(1)["pid"]);
}

/// What a rank may have recorded, in the order in which it ended, bit by bit.
std::vector<Snapshot> anything(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto some = [&](double most) { return most * static_cast<double>(random() % 1000) / 1000; };
  std::vector<Snapshot> all;
  CommunicatorView view = communicator(0, 1);
  LaneView lane;
  lane.peer_name = "hostb";
  double now = 1000 + some(1);
  std::uint64_t operations = 0, steps = 0, chunks = 0;
  for (int turn = 0; turn < 30; ++turn) {
    for (int i = 0; i < 20; ++i) {
      now += some(1e-3);
      OperationView ended = operation(operations++, now - some(3e-3), 0, now);
      ended.waited = some(1) * (ended.done - ended.entered);
      ended.collective = random() % 2 == 0 ? Collective::point_to_point : Collective::all_reduce;
      ended.root = static_cast<int>(random() % 2);
      view.operations.push_back(ended);
      view.steps.push_back({steps++, 0, static_cast<int>(random() % 3), 0, 0, now - some(2e-3), now});
      lane.chunks.push_back({chunks++, now - some(5e-3), now, 1, 0, 0, 0, 1e9});
    }
    ProcessView owner = process(1, {view});
    owner.lanes = {lane};
    // The rate of ticks is measured anew each time.
    for (OperationView& each : owner.communicators[0].operations) {
      const double moved = some(2e-7);
      for (double* const time : {&each.entered, &each.done}) *time += moved;
    }
    all.push_back(snapshot({owner}, now));
  }
  return all;
}

TEST_F(TraceTest, SlicesNestWhateverOverlapped) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    const TraceChecker checked = trace(anything(seed));
    EXPECT_EQ(checked.wrong(), Complaints{}) << "seed " << seed;
    EXPECT_EQ(written_.operations, 600U);
    EXPECT_EQ(written_.steps, 600U);
    EXPECT_EQ(written_.chunks, 600U);
  }
}

class MergeTest : public TraceTest {
 protected:
  /// Two ranks on two hosts: rank 1 comes late.
  void trace_both() {
    for (int rank = 0; rank < 2; ++rank) {
      CommunicatorView view = communicator(rank, 2);
      view.operations = {operation(4, rank == 0 ? 1 : 1.5, 1.51, 2)};
      ProcessView owner = process(1, {view});
      owner.host = rank == 0 ? "hosta" : "hostb";
      EXPECT_EQ(trace({snapshot({owner})}, owner.host).find("s").size(), 0U);
    }
  }
  Result<TraceEvent> merge(const std::vector<std::string>& names) {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(path(name));
    auto file = TraceFile::create(path("both"));
    auto about = merge_traces(paths, **file);
    if (about) {
      EXPECT_TRUE((*file)->close(*about));
    }
    return about;
  }
};

TEST_F(MergeTest, TracesOfTwoHostsAreOneWithArrowsBetweenThem) {
  trace_both();
  ASSERT_TRUE(merge({"hosta", "hostb"}));
  const TraceChecker checked(path("both"));
  EXPECT_EQ(checked.wrong(), Complaints{});
  EXPECT_EQ(checked.find("X", "all_reduce").size(), 2U);
  ASSERT_EQ(checked.find("s").size(), 1U);
  EXPECT_EQ(checked.process(checked.find("s")[0]), "rank 1 on hostb, process 1");
  EXPECT_EQ(checked.process(checked.find("f")[0]), "rank 0 on hosta, process 1");
  EXPECT_EQ(checked.document()["otherData"]["parts"].size(), 2U);
}

TEST_F(MergeTest, TracesHoweverLongAreReadSideBySide) {
  constexpr std::uint64_t kOperations = 10'000;
  for (int rank = 0; rank < 2; ++rank) {
    CommunicatorView view = communicator(rank, 2);
    for (std::uint64_t i = 0; i < kOperations; ++i) {
      const double begun = 10 + 1e-3 * static_cast<double>(i);
      view.operations.push_back(operation(i, begun + 1e-4 * rank, begun + 2e-4, begun + 3e-4));
    }
    trace({snapshot({process(rank, {view})})}, rank == 0 ? "hosta" : "hostb");
  }
  ASSERT_TRUE(merge({"hosta", "hostb"}));
  const TraceChecker checked(path("both"));
  EXPECT_EQ(checked.wrong(), Complaints{});
  EXPECT_EQ(checked.find("s").size(), kOperations);
}

TEST_F(MergeTest, AMergedTraceCanBeMergedAgain) {
  trace_both();
  ASSERT_TRUE(merge({"hosta", "hostb"}));
  std::filesystem::rename(path("both"), path("once"));
  ASSERT_TRUE(merge({"once"}));
  const TraceChecker checked(path("both"));
  EXPECT_EQ(checked.wrong(), Complaints{});
  EXPECT_EQ(checked.find("s").size(), 1U);
}

TEST_F(MergeTest, AnotherFileIsRefusedByName) {
  std::ofstream(path("other")) << "[{\"ph\":\"X\"}]\n";
  const auto merged = merge({"other"});
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().message, "'" + path("other") + "' was not written by tutti trace");
}

TEST_F(MergeTest, ATraceThatEndsEarlyIsRefused) {
  trace_both();
  std::ifstream whole(path("hosta"));
  std::ofstream part(path("part"));
  std::string line;
  for (int i = 0; i < 3 && std::getline(whole, line); ++i) part << line << "\n";
  part.close();
  EXPECT_EQ(merge({"part"}).error().message, "'" + path("part") + "' is not complete");
  std::ofstream(path("part"), std::ios::app) << "{\"ph\":\n";
  EXPECT_EQ(merge({"part"}).error().message, "'" + path("part") + "' line 4 is not an event");
}

}  // namespace
}  // namespace tutti::monitor
