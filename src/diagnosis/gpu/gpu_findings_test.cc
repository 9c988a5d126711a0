#include "diagnosis/gpu/gpu_findings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "diagnosis/diagnose.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"

namespace tutti::diagnosis {
namespace {

constexpr double kNow = 1000;

/// Ranks of two hosts, each with a GPU of its own that is well, that have done nothing yet.
Telemetry job(int ranks) {
  Telemetry telemetry;
  telemetry.now = kNow;
  CommunicatorFacts& world = telemetry.communicators.emplace_back();
  world.id = 7;
  world.name = "world";
  world.size = ranks;
  world.rhythm = {100, 1, 0.1, 0.01, 0.2};
  for (int rank = 0; rank < ranks; ++rank) {
    ProcessFacts& process = telemetry.processes.emplace_back();
    process.rank = rank;
    process.pid = 100 + rank;
    process.host = rank < ranks / 2 ? "node0" : "node1";
    GpuFacts& gpu = process.gpus.emplace_back();
    gpu.index = rank % (ranks / 2);
    gpu.clock = gpu.max_clock = 1980;
    MemberFacts& member = world.members.emplace_back();
    member.rank = member.process = rank;
    member.last_done = 9;
  }
  return telemetry;
}

GpuFacts& gpu_of(Telemetry& telemetry, int rank) {
  return telemetry.processes[static_cast<std::size_t>(rank)].gpus.front();
}

void slow_down(GpuFacts& gpu, int clock = 1005) {
  gpu.throttled = 1;
  gpu.throttle = "hardware thermal slowdown";
  gpu.clock = clock;
}

/// All others wait for this rank 30 % of the time.
Telemetry with_straggler(int ranks, int late) {
  Telemetry telemetry = job(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != late) telemetry.communicators[0].waits.push_back({rank, late, 3, 0.3});
  return telemetry;
}

/// All that rank 1 sends takes twice as long.
Telemetry with_slow_sender() {
  Telemetry telemetry = job(6);
  for (int source = 0; source < 6; ++source)
    for (int destination = 0; destination < 6; ++destination)
      if (source != destination)
        telemetry.delays.push_back({source, destination, 0, false, source == 1 ? 2.0 : 1.0, 0.02});
  return telemetry;
}

void enter(Telemetry& telemetry, int rank, double seconds_ago) {
  OperationFacts operation;
  operation.call.number = 10;
  operation.call.collective = Collective::all_reduce;
  operation.entered = kNow - seconds_ago;
  telemetry.communicators[0].members[static_cast<std::size_t>(rank)].operations.push_back(operation);
}

Verdict only(const Telemetry& telemetry) {
  const std::vector<Verdict> verdicts = diagnose(telemetry);
  EXPECT_EQ(verdicts.size(), 1U);
  return verdicts.size() == 1 ? verdicts.front() : Verdict{};
}

double value_of(const Verdict& verdict, const std::string& name) {
  for (const Evidence& each : verdict.evidence)
    if (each.name == name) return each.value;
  return -1;
}

bool ends_with(const Verdict& verdict, const std::string& text) { return verdict.text.ends_with(text); }

TEST(GpuFindings, name_the_gpu_that_makes_a_rank_late) {
  Telemetry telemetry = with_straggler(8, 7);
  const double before = only(telemetry).confidence;
  slow_down(gpu_of(telemetry, 7));
  const Verdict verdict = only(telemetry);
  EXPECT_EQ(verdict.fault, FaultClass::straggler);
  EXPECT_GT(verdict.confidence, before);
  EXPECT_TRUE(ends_with(verdict, "; its GPU 3 runs at 1,005 of 1,980 MHz, hardware thermal slowdown")) << verdict.text;
  EXPECT_EQ(value_of(verdict, "gpu"), 3);
  EXPECT_EQ(value_of(verdict, "gpu_clock_mhz"), 1005);
  EXPECT_EQ(value_of(verdict, "gpu_max_clock_mhz"), 1980);
  EXPECT_EQ(value_of(verdict, "gpu_throttled_share"), 1);
}

TEST(GpuFindings, do_not_mention_gpus_that_are_well) {
  EXPECT_EQ(only(with_straggler(4, 1)).text.find("GPU"), std::string::npos);
}

TEST(GpuFindings, blame_no_gpu_that_is_as_slow_as_all_others) {
  Telemetry telemetry = with_straggler(8, 1);
  for (int rank = 0; rank < 8; ++rank) slow_down(gpu_of(telemetry, rank), 1700);
  EXPECT_EQ(only(telemetry).text.find("GPU"), std::string::npos) << "a power cap that all work under";
  gpu_of(telemetry, 1).clock = 1200;
  EXPECT_NE(only(telemetry).text.find("its GPU 1 runs at 1,200 of"), std::string::npos);
}

TEST(GpuFindings, take_a_power_cap_for_no_fault_of_the_gpu) {
  Telemetry telemetry = with_straggler(4, 1);
  const double before = only(telemetry).confidence;
  slow_down(gpu_of(telemetry, 1), 1500);
  gpu_of(telemetry, 1).throttle = "software power cap";
  EXPECT_TRUE(ends_with(only(telemetry), "its GPU 1 runs at 1,500 of 1,980 MHz, software power cap"));
  EXPECT_EQ(only(telemetry).confidence, before) << "it may work hard because it is late";
  telemetry = with_slow_sender();
  slow_down(gpu_of(telemetry, 1), 1500);
  gpu_of(telemetry, 1).throttle = "software power cap";
  EXPECT_EQ(only(telemetry).fault, FaultClass::slow_sender);
}

TEST(GpuFindings, go_without_clocks) {
  Telemetry telemetry = with_straggler(4, 1);
  slow_down(gpu_of(telemetry, 1), 0);
  gpu_of(telemetry, 1).throttled = 0.8;
  EXPECT_TRUE(ends_with(only(telemetry), "its GPU 1 is slowed down for 80 % of the time, hardware thermal slowdown"));
}

TEST(GpuFindings, compare_the_only_gpu_with_what_it_could_be) {
  Telemetry telemetry = with_straggler(2, 1);
  telemetry.processes[0].gpus.clear();
  slow_down(gpu_of(telemetry, 1));
  EXPECT_NE(only(telemetry).text.find("its GPU 0 runs at"), std::string::npos);
}

TEST(GpuFindings, say_nothing_of_a_hot_gpu_that_nobody_waits_for) {
  Telemetry telemetry = job(4);
  slow_down(gpu_of(telemetry, 1));
  gpu_of(telemetry, 2).xids = {{48, kNow - 1}};
  gpu_of(telemetry, 3).lost = true;
  EXPECT_TRUE(diagnose(telemetry).empty());
}

TEST(GpuFindings, put_slow_sending_down_to_a_slow_gpu) {
  Telemetry telemetry = with_slow_sender();
  EXPECT_EQ(only(telemetry).fault, FaultClass::slow_sender);
  slow_down(gpu_of(telemetry, 1));
  const Verdict alone = only(telemetry);
  EXPECT_EQ(alone.fault, FaultClass::straggler);
  EXPECT_EQ(alone.text,
            "rank 1 (pid 101 on node0) is slow because its GPU 1 runs at 1,005 of 1,980 MHz, hardware thermal "
            "slowdown; the network is not to blame");
  telemetry.communicators[0].waits = with_straggler(6, 1).communicators[0].waits;
  const Verdict both = only(telemetry);
  EXPECT_EQ(both.fault, FaultClass::straggler) << "one verdict, not two";
  EXPECT_NE(both.text.find("comes late"), std::string::npos);
}

TEST(GpuFindings, leave_a_slow_link_of_a_rank_with_a_slow_gpu_to_the_network) {
  Telemetry telemetry = with_slow_sender();
  for (DelayFacts& delay : telemetry.delays) delay.relative = delay.source == 1 && delay.destination == 4 ? 2 : 1;
  slow_down(gpu_of(telemetry, 1));
  EXPECT_EQ(only(telemetry).fault, FaultClass::slow_link) << "what it sends to others is as fast as ever";
}

TEST(GpuFindings, excuse_a_link_that_is_all_there_is_and_no_path_of_several) {
  for (const int paths : {1, 2}) {
    Telemetry telemetry = job(2);
    for (int path = 0; path < paths; ++path)
      for (const int source : {0, 1})
        telemetry.delays.push_back({source, 1 - source, path, false, source == 1 && path == 0 ? 2.0 : 1.0, 0.02});
    EXPECT_EQ(only(telemetry).fault, FaultClass::slow_link);
    slow_down(gpu_of(telemetry, 1));
    EXPECT_EQ(only(telemetry).fault, paths == 1 ? FaultClass::straggler : FaultClass::slow_link);
  }
}

TEST(GpuFindings, tell_which_gpu_a_process_died_of) {
  Telemetry telemetry = job(8);
  telemetry.processes[7].state = ProcessState::killed;
  gpu_of(telemetry, 7).lost = true;
  gpu_of(telemetry, 7).xids = {{45, kNow - 3.2}, {79, kNow - 3.1}};
  const Verdict verdict = only(telemetry);
  EXPECT_EQ(verdict.fault, FaultClass::crashed);
  EXPECT_TRUE(ends_with(verdict, "; its GPU 3 reported XID 79 (it has fallen off the bus) 3.1 s ago")) << verdict.text;
  EXPECT_EQ(value_of(verdict, "xid"), 79);
  EXPECT_EQ(value_of(verdict, "gpu"), 3);
}

TEST(GpuFindings, call_errors_that_applications_make_by_their_name) {
  Telemetry telemetry = job(4);
  telemetry.processes[1].state = ProcessState::killed;
  gpu_of(telemetry, 1).xids = {{31, kNow - 2}};
  EXPECT_NE(only(telemetry).text.find("XID 31 (a page fault, usually the application's fault) 2.0 s ago"),
            std::string::npos);
  gpu_of(telemetry, 1).xids = {{45, kNow - 2}};
  EXPECT_EQ(value_of(only(telemetry), "xid"), 45) << "where there is no other";
  gpu_of(telemetry, 1).xids = {{999, kNow - 2}};
  EXPECT_TRUE(ends_with(only(telemetry), "reported XID 999 2.0 s ago"));
}

TEST(GpuFindings, tell_of_what_stands_still) {
  Telemetry telemetry = job(4);
  for (const int rank : {0, 1, 3}) enter(telemetry, rank, 5);
  gpu_of(telemetry, 2).xids = {{95, kNow - 6}};
  gpu_of(telemetry, 1).xids = {{79, kNow - 6}};
  const Verdict missing = only(telemetry);
  EXPECT_EQ(missing.fault, FaultClass::not_entered);
  EXPECT_TRUE(ends_with(missing, "its GPU 0 reported XID 95 (an uncontained ECC error) 6.0 s ago")) << missing.text;
  EXPECT_EQ(missing.text.find("XID 79"), std::string::npos) << "rank 1 is where it should be";
  gpu_of(telemetry, 2).xids = {{95, kNow - 500}};
  EXPECT_EQ(only(telemetry).text.find("XID"), std::string::npos) << "long before";
  gpu_of(telemetry, 2) = {};
  gpu_of(telemetry, 2).lost = true;
  EXPECT_TRUE(ends_with(only(telemetry), "does not answer: it has fallen off the bus, or needs a reset"));
  telemetry.processes[2].state = ProcessState::stopped;
  EXPECT_EQ(only(telemetry).fault, FaultClass::frozen);
  EXPECT_EQ(value_of(only(telemetry), "gpu_lost"), 1);
}

TEST(GpuFindings, look_at_both_ends_of_a_transfer_that_is_stuck) {
  Telemetry telemetry = job(4);
  for (int rank = 0; rank < 4; ++rank) enter(telemetry, rank, 4);
  telemetry.communicators[0].flows = {{0, 1, 0, 10, 8, 8, 3}};
  gpu_of(telemetry, 1).xids = {{74, kNow - 4.5}};
  gpu_of(telemetry, 0).links_down = 1;
  const Verdict verdict = only(telemetry);
  EXPECT_EQ(verdict.fault, FaultClass::transfer_stuck);
  EXPECT_NE(verdict.text.find("GPU 1 of rank 1 reported XID 74 (an NVLink error)"), std::string::npos) << verdict.text;
  EXPECT_NE(verdict.text.find("its GPU 0 has 1 NVLink fewer than others"), std::string::npos) << verdict.text;
}

TEST(GpuFindings, tell_of_bad_memory) {
  Telemetry telemetry = job(4);
  telemetry.processes[1].state = ProcessState::killed;
  gpu_of(telemetry, 1).rows_pending = true;
  EXPECT_NE(only(telemetry).text.find("replaced at its next reset"), std::string::npos);
  gpu_of(telemetry, 1).uncorrected = 2;
  EXPECT_TRUE(ends_with(only(telemetry), "has counted 2 uncorrected ECC errors since its driver was loaded"));
  gpu_of(telemetry, 1).rows_failed = true;
  EXPECT_NE(only(telemetry).text.find("nothing left to replace it with"), std::string::npos);
}

TEST(GpuFindings, tell_of_nvlinks_where_the_slow_link_is_within_a_host) {
  for (const bool local : {true, false}) {
    Telemetry telemetry = job(6);
    const int slow = local ? 2 : 4;
    for (int source = 0; source < 6; ++source)
      for (int destination = 0; destination < 6; ++destination)
        if (source != destination)
          telemetry.delays.push_back(
              {source, destination, 0, false, source == 1 && destination == slow ? 2.0 : 1.0, 0.02});
    gpu_of(telemetry, 1).link_errors = 12;
    const Verdict verdict = only(telemetry);
    EXPECT_EQ(verdict.fault, FaultClass::slow_link);
    EXPECT_EQ(verdict.text.ends_with("; its GPU 1 has counted 12 NVLink errors within a minute"), local)
        << verdict.text;
  }
}

TEST(GpuFacts, are_written_and_read) {
  Telemetry telemetry = job(2);
  GpuFacts& gpu = gpu_of(telemetry, 1);
  gpu = {3, "H200", true, 0.5, "hardware power brake", 1005, 1980, 91, {{79, 990}}, 2, true, true, 7, 1};
  const std::string line = line_of(telemetry);
  const auto read = parse_telemetry(line);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(line_of(*read), line);
  EXPECT_EQ(read->processes[1].gpus[0].xids[0].code, 79);
  EXPECT_EQ(read->processes[1].gpus[0].links_down, 1);
  gpu.index = -1;
  EXPECT_NE(parse_telemetry(line_of(telemetry)).error().message.find("gpus: index -1 is out of range"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::diagnosis
