#include "diagnosis/diagnose.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::diagnosis {
namespace {

constexpr double kNow = 1000;

CallFacts call(std::uint32_t number, std::uint32_t signature = 5) {
  CallFacts facts;
  facts.number = number;
  facts.collective = Collective::all_reduce;
  facts.type = DataType::float32;
  facts.bytes = 4096;
  facts.signature = signature;
  return facts;
}

/// A job of so many ranks, a process each, that do nothing wrong: communicators of all of them, through with #9.
Telemetry job(int ranks, int communicators = 1) {
  Telemetry telemetry;
  telemetry.now = kNow;
  for (int rank = 0; rank < ranks; ++rank) {
    ProcessFacts process;
    process.rank = rank;
    process.pid = 100 + rank;
    process.host = "node" + std::to_string(rank / 2);
    telemetry.processes.push_back(process);
  }
  for (int c = 0; c < communicators; ++c) {
    CommunicatorFacts communicator;
    communicator.id = static_cast<std::uint64_t>(7 + c);
    communicator.name = c == 0 ? "world" : "other";
    communicator.size = ranks;
    communicator.rhythm = {100, 1, 0.1, 0.01, 0.2};
    for (int rank = 0; rank < ranks; ++rank) {
      MemberFacts member;
      member.rank = member.process = rank;
      member.last_done = 9;
      member.done_at = kNow - 5;
      communicator.members.push_back(member);
    }
    telemetry.communicators.push_back(communicator);
  }
  return telemetry;
}

MemberFacts& member(Telemetry& telemetry, int rank, std::size_t communicator = 0) {
  return telemetry.communicators[communicator].members[static_cast<std::size_t>(rank)];
}

void enter(Telemetry& telemetry, int rank, double seconds_ago, std::size_t communicator = 0,
           std::uint32_t signature = 5) {
  OperationFacts operation;
  operation.call = call(10, signature);
  operation.entered = kNow - seconds_ago;
  operation.awaited = (rank + 1) % telemetry.communicators[communicator].size;
  member(telemetry, rank, communicator).operations.push_back(operation);
}

void send_or_receive(Telemetry& telemetry, int rank, int peer, bool sends, double seconds_ago,
                     std::uint64_t bytes = 64) {
  OperationFacts operation;
  operation.call = call(3);
  operation.call.collective = Collective::point_to_point;
  operation.call.sends = sends;
  operation.call.root = peer;
  operation.call.bytes = bytes;
  operation.entered = kNow - seconds_ago;
  member(telemetry, rank).operations.push_back(operation);
}

std::vector<FaultClass> faults_of(const std::vector<Verdict>& verdicts) {
  std::vector<FaultClass> faults;
  for (const Verdict& each : verdicts) faults.push_back(each.fault);
  return faults;
}

std::vector<int> ranks_of(const Verdict& verdict) {
  std::vector<int> ranks;
  for (const Suspect& each : verdict.suspects) ranks.push_back(each.rank);
  return ranks;
}

using Faults = std::vector<FaultClass>;
using Ranks = std::vector<int>;

TEST(Diagnose, says_nothing_of_a_job_that_works) {
  Telemetry telemetry = job(4);
  EXPECT_TRUE(diagnose(telemetry).empty());
  for (int rank = 0; rank < 4; ++rank) enter(telemetry, rank, 0.05);
  EXPECT_TRUE(diagnose(telemetry).empty());
}

TEST(Diagnose, names_the_rank_that_has_not_entered) {
  Telemetry telemetry = job(4);
  for (const int rank : {0, 1, 3}) enter(telemetry, rank, 3);
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::not_entered});
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{2});
  EXPECT_EQ(verdicts[0].communicators, std::vector<std::uint64_t>{7});
  EXPECT_DOUBLE_EQ(verdicts[0].since, kNow - 3);
  EXPECT_EQ(
      verdicts[0].text,
      "rank 2 (pid 102 on node1) has not entered all_reduce #10 of world (alive, last done #9, 5.0 s ago); 3 ranks "
      "have waited for 3.0 s");
}

TEST(Diagnose, is_as_patient_as_the_job_is_slow) {
  Telemetry telemetry = job(4);
  for (const int rank : {0, 1, 3}) enter(telemetry, rank, 3);
  telemetry.communicators[0].rhythm.period = 1.5;
  EXPECT_TRUE(diagnose(telemetry).empty()) << "two periods are no hang";
  telemetry.communicators[0].rhythm.period = 0.1;
  telemetry.communicators[0].rhythm.longest_gap = 4;
  EXPECT_TRUE(diagnose(telemetry).empty()) << "it paused for longer at a checkpoint before";
  telemetry.communicators[0].rhythm = {};
  EXPECT_TRUE(diagnose(telemetry).empty()) << "it warms up";
  telemetry.now += 8;
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::not_entered});
}

TEST(Diagnose, tells_a_stopped_rank_from_one_that_computes) {
  Telemetry telemetry = job(4);
  for (const int rank : {0, 1, 3}) enter(telemetry, rank, 0.8);
  EXPECT_TRUE(diagnose(telemetry).empty());
  telemetry.processes[2].state = ProcessState::stopped;
  const auto outside = diagnose(telemetry);
  ASSERT_EQ(faults_of(outside), Faults{FaultClass::frozen});
  EXPECT_EQ(ranks_of(outside[0]), Ranks{2});
  enter(telemetry, 2, 0.8);
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::frozen}) << "also one that is in the operation";
}

TEST(Diagnose, says_nothing_of_a_stopped_rank_that_nobody_needs) {
  Telemetry telemetry = job(4);
  telemetry.processes[2].state = ProcessState::stopped;
  EXPECT_TRUE(diagnose(telemetry).empty());
}

TEST(Diagnose, names_who_died_and_not_who_died_of_it) {
  Telemetry telemetry = job(4);
  for (ProcessFacts& process : telemetry.processes) process.state = ProcessState::killed;
  for (const int rank : {0, 1}) {
    member(telemetry, rank).state = MemberFacts::State::broken;
    member(telemetry, rank).accused = 3;
  }
  // Rank 2 was ended by the launcher before it had heard.
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::crashed});
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{3});
  EXPECT_GT(verdicts[0].confidence, 0.9);
}

TEST(Diagnose, blames_nobody_where_all_died_at_once) {
  Telemetry telemetry = job(4);
  for (ProcessFacts& process : telemetry.processes) process.state = ProcessState::killed;
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::crashed});
  EXPECT_EQ(ranks_of(verdicts[0]), (Ranks{0, 1, 2, 3}));
  EXPECT_LT(verdicts[0].confidence, 0.5);
}

TEST(Diagnose, tells_a_death_once_with_all_that_waits_for_it) {
  Telemetry telemetry = job(4, 2);
  telemetry.processes[1].state = ProcessState::killed;
  for (const std::size_t communicator : {0U, 1U})
    for (const int rank : communicator == 0 ? Ranks{0, 2} : Ranks{3}) enter(telemetry, rank, 0.7, communicator);
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::crashed});
  EXPECT_EQ(verdicts[0].communicators, (std::vector<std::uint64_t>{7, 8}));
}

TEST(Diagnose, names_the_minority_of_a_mismatch_at_once) {
  Telemetry telemetry = job(4);
  for (const int rank : {0, 1, 3}) enter(telemetry, rank, 0.2);
  enter(telemetry, 2, 0.1, 0, 6);
  member(telemetry, 2).operations[0].call.bytes = 2048;
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::mismatched_call});
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{2});
  EXPECT_NE(verdicts[0].text.find("the count differs"), std::string::npos) << verdicts[0].text;
}

TEST(Diagnose, takes_the_error_after_a_mismatch_for_no_death) {
  Telemetry telemetry = job(4);
  for (int rank = 0; rank < 4; ++rank) {
    enter(telemetry, rank, 30, 0, rank == 2 ? 6 : 5);
    member(telemetry, rank).operations[0].failed = true;
    member(telemetry, rank).state = MemberFacts::State::broken;
    member(telemetry, rank).accused = rank == 2 ? 0 : 2;
  }
  telemetry.processes[2].state = ProcessState::ended;
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::mismatched_call});
}

TEST(Diagnose, names_a_difference_of_root_and_of_operator) {
  for (const char* const field : {"root", "operator", "type", "operation"}) {
    Telemetry telemetry = job(3);
    for (int rank = 0; rank < 3; ++rank) enter(telemetry, rank, 0.2, 0, rank == 1 ? 6 : 5);
    CallFacts& wrong = member(telemetry, 1).operations[0].call;
    if (std::string(field) == "root") wrong.root = 2;
    if (std::string(field) == "operator") wrong.op = Operator::max;
    if (std::string(field) == "type") wrong.type = DataType::int32;
    if (std::string(field) == "operation") wrong.collective = Collective::all_gather;
    const auto verdicts = diagnose(telemetry);
    ASSERT_EQ(verdicts.size(), 1U);
    EXPECT_NE(verdicts[0].text.find(std::string("the ") + field + " differs"), std::string::npos) << verdicts[0].text;
  }
}

TEST(Diagnose, names_the_circle_of_a_deadlock_across_communicators) {
  Telemetry telemetry = job(2, 2);
  enter(telemetry, 0, 5, 0);
  enter(telemetry, 1, 5, 1);
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::deadlocked});
  EXPECT_EQ(
      verdicts[0].text,
      "deadlock: all_reduce #10 of world waits for rank 1, which is in all_reduce #10 of other; all_reduce #10 of "
      "other waits for rank 0, which is in all_reduce #10 of world");
  EXPECT_EQ(verdicts[0].communicators, (std::vector<std::uint64_t>{7, 8}));
}

TEST(Diagnose, names_two_ranks_that_receive_from_each_other) {
  Telemetry telemetry = job(2);
  send_or_receive(telemetry, 0, 1, false, 5);
  send_or_receive(telemetry, 1, 0, false, 5);
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::deadlocked});
}

TEST(Diagnose, follows_a_chain_through_communicators_to_its_end) {
  Telemetry telemetry = job(3, 2);
  // Rank 2 is missing in one, where rank 1 waits; therefore rank 1 is missing in the other, where rank 0 waits.
  telemetry.communicators[1].members.erase(telemetry.communicators[1].members.begin() + 2);
  telemetry.communicators[1].size = 2;
  telemetry.communicators[0].members.erase(telemetry.communicators[0].members.begin());
  telemetry.communicators[0].size = 2;
  telemetry.communicators[0].members[0].rank = 0;
  telemetry.communicators[0].members[1].rank = 1;
  enter(telemetry, 0, 4, 0);  // its rank 0 is process 1
  enter(telemetry, 0, 3, 1);
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::not_entered});
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{2});
  EXPECT_EQ(verdicts[0].communicators.size(), 2U);
}

TEST(Diagnose, names_the_flow_that_has_done_least_when_all_are_in) {
  Telemetry telemetry = job(4);
  for (int rank = 0; rank < 4; ++rank) {
    enter(telemetry, rank, 4);
    FlowFacts flow;
    flow.source = rank;
    flow.destination = (rank + 1) % 4;
    flow.operation = 10;
    flow.path = 1;
    flow.done = rank == 2 ? 3 : 5;
    flow.posted = flow.sent = rank == 2 || rank == 1 ? 8 : 5;
    telemetry.communicators[0].flows.push_back(flow);
  }
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::transfer_stuck});
  EXPECT_EQ(verdicts[0].suspects[0].rank, 2);
  EXPECT_EQ(verdicts[0].suspects[0].peer, 3);
  EXPECT_EQ(verdicts[0].suspects[0].path, 1);
}

TEST(Diagnose, names_who_waits_for_nobody_when_nothing_is_on_the_way) {
  Telemetry telemetry = job(3);
  for (int rank = 0; rank < 3; ++rank) enter(telemetry, rank, 4);
  member(telemetry, 1).operations[0].awaited = -1;
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::transfer_stuck});
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{1});
  EXPECT_LE(verdicts[0].confidence, 0.5);
}

TEST(Diagnose, calls_no_operation_stuck_whose_counters_move) {
  Telemetry telemetry = job(3);
  for (int rank = 0; rank < 3; ++rank) enter(telemetry, rank, 40);
  member(telemetry, 1).operations[0].moved = kNow - 0.1;
  EXPECT_TRUE(diagnose(telemetry).empty());
}

TEST(Diagnose, names_who_is_missing_at_the_start) {
  Telemetry telemetry;
  telemetry.now = kNow;
  telemetry.gatherings.push_back({1, "world", 5, kNow - 4, {0, 1, 4}, true, {}});
  EXPECT_TRUE(diagnose(telemetry).empty()) << "ranks may take their time";
  telemetry.now += 10;
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::missing_at_start});
  EXPECT_EQ(ranks_of(verdicts[0]), (Ranks{2, 3}));
  EXPECT_EQ(verdicts[0].suspects[0].process, -1);
}

TEST(Diagnose, tells_a_rank_that_is_missing_from_one_that_does_not_reach_the_others) {
  Telemetry telemetry = job(3);
  telemetry.now = kNow + 20;
  telemetry.gatherings.push_back({1, "", 3, kNow, {0, 1}, true, {{0, 2}, {1, 1}, {2, 0}}});
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::missing_at_start});
  EXPECT_EQ(verdicts[0].suspects[0].process, 0);
  EXPECT_EQ(verdicts[0].suspects[0].rank, 2) << "as the new communicator counts";
  EXPECT_NE(verdicts[0].text.find("is waiting, too, but cannot reach the others"), std::string::npos);
}

TEST(Diagnose, tells_ranks_that_nobody_sees_from_ranks_that_are_missing) {
  Telemetry telemetry = job(4);
  telemetry.processes[3].state = ProcessState::unreachable;
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::unobserved});
  for (const int rank : {0, 1, 2}) enter(telemetry, rank, 5);
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::not_entered});
  EXPECT_LE(verdicts[0].confidence, 0.5) << "it may well be in there";
  telemetry.processes[3].state = ProcessState::elsewhere;
  telemetry.communicators[0].members[0].operations.clear();
  const auto seen = diagnose(telemetry);
  ASSERT_EQ(faults_of(seen), Faults{FaultClass::not_entered});
  EXPECT_EQ(ranks_of(seen[0]), Ranks{0}) << "one that is seen to be missing is enough";
}

TEST(Diagnose, weighs_stragglers_by_the_time_others_wait) {
  Telemetry telemetry = job(4);
  telemetry.communicators[0].waits = {{0, 1, 3, 0.3}, {2, 1, 3, 0.3}, {3, 1, 3, 0.28}};
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::straggler});
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{1});
  telemetry.communicators[0].waits = {{0, 1, 3, 0.02}, {2, 1, 3, 0.02}, {3, 1, 3, 0.02}};
  EXPECT_TRUE(diagnose(telemetry).empty()) << "2 % is no straggler";
}

TEST(Diagnose, finds_a_straggler_behind_another) {
  Telemetry telemetry = job(5);
  // Rank 3 is late too, but earlier than rank 1: it waits for that one, and less than the others.
  telemetry.communicators[0].waits = {{0, 1, 4, 0.4}, {2, 1, 4, 0.4}, {4, 1, 4, 0.4}, {3, 1, 2, 0.2}};
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), (Faults{FaultClass::straggler, FaultClass::straggler}));
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{1});
  EXPECT_EQ(ranks_of(verdicts[1]), Ranks{3});
}

TEST(Diagnose, excuses_who_is_late_because_it_waits_elsewhere) {
  Telemetry telemetry = job(6, 2);
  auto& first = telemetry.communicators[0].members;
  first.erase(first.begin() + 4, first.end());  // ranks 0 to 3 of the job
  telemetry.communicators[0].waits = {{0, 1, 3, 0.3}, {2, 1, 3, 0.3}, {3, 1, 3, 0.3}};
  auto& second = telemetry.communicators[1].members;
  second.erase(second.begin() + 1, second.begin() + 4);  // ranks 0, 4 and 5
  for (int rank = 0; rank < 3; ++rank) second[static_cast<std::size_t>(rank)].rank = rank;
  // There rank 0 comes late, by what it waited for rank 1.
  telemetry.communicators[1].waits = {{1, 0, 3, 0.28}, {2, 0, 3, 0.28}};
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::straggler});
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{1});
}

TEST(Diagnose, puts_slowness_down_to_a_lack_of_cores) {
  Telemetry telemetry = job(4);
  telemetry.communicators[0].waits = {{0, 1, 3, 0.3}, {2, 1, 3, 0.3}, {3, 1, 3, 0.3}};
  telemetry.processes[1].starved = 0.6;
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::starved});
  for (ProcessFacts& process : telemetry.processes) process.starved = 0.6;
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::straggler}) << "all lack cores, and only one is late";
}

TEST(Diagnose, tells_a_lane_that_flaps_from_one_that_is_down) {
  Telemetry telemetry = job(4);
  LaneFacts lane;
  lane.process = 0;
  lane.peer = 2;
  lane.path = 1;
  lane.losses = 5;
  telemetry.lanes = {lane};
  std::swap(lane.process, lane.peer);
  telemetry.lanes.push_back(lane);
  auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::flapping}) << "both ends tell of the same one";
  EXPECT_EQ(verdicts[0].suspects[0].path, 1);
  for (LaneFacts& each : telemetry.lanes) {
    each.losses = 1;
    each.state = LaneFacts::State::down;
  }
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::path_down});
  telemetry.processes[2].state = ProcessState::killed;
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::crashed}) << "whoever dies takes its lanes along";
}

TEST(Diagnose, names_the_port_at_which_several_lanes_end) {
  Telemetry telemetry = job(4);
  for (const int peer : {1, 2, 3}) {
    LaneFacts lane;
    lane.process = peer;
    lane.peer = 0;
    lane.state = LaneFacts::State::down;
    telemetry.lanes.push_back(lane);
  }
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::path_down});
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{0});
}

TEST(Diagnose, tells_only_the_slowest_path_between_two_hosts) {
  Telemetry telemetry = job(2);
  for (const int path : {0, 1})
    for (const int source : {0, 1}) {
      // What rank 0 sends on path 1 is slow; on path 0 acknowledgements wait for the load that has moved there.
      const double relative = source == 0 && path == 1 ? 2.1 : source == 1 && path == 0 ? 1.4 : 1;
      telemetry.delays.push_back({source, 1 - source, path, false, relative, 0.02});
    }
  const std::vector<Verdict> verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), std::vector{FaultClass::slow_link});
  EXPECT_EQ(verdicts[0].suspects[0].rank, 0);
  EXPECT_EQ(verdicts[0].suspects[0].path, 1);
}

TEST(Diagnose, tells_two_paths_between_two_hosts_that_are_nearly_as_slow) {
  Telemetry telemetry = job(2);
  for (const int path : {0, 1, 2, 3, 4})
    for (const int source : {0, 1})
      telemetry.delays.push_back(
          {source, 1 - source, path, false, source == 0 && path < 2 ? 2.0 + 0.1 * path : 1, 0.02});
  EXPECT_EQ(faults_of(diagnose(telemetry)), (std::vector{FaultClass::slow_link, FaultClass::slow_link}));
}

TEST(Diagnose, says_who_corrupts_data) {
  Telemetry telemetry = job(4);
  telemetry.corruptions = {{1, 2, 0, 3}};
  auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::corrupted});
  EXPECT_EQ(verdicts[0].suspects[0].peer, 2);
  telemetry.corruptions = {{1, 2, 0, 3}, {0, 2, 0, 1}, {3, 2, 1, 1}};
  verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::corrupted});
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{2}) << "three senders cannot all be at fault";
  telemetry.corruptions = {{1, 2, 0, 3}, {1, 2, 1, 4}};
  verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::corrupted}) << "one link, on both of its paths";
  EXPECT_EQ(verdicts[0].suspects[0].path, -1);
  EXPECT_EQ(verdicts[0].evidence[0].value, 7);
  telemetry.corruptions = {{1, 2, 1, 3}, {2, 0, 1, 1}, {3, 1, 1, 1}, {0, 3, 1, 1}};
  verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::corrupted}) << "no end is common to all, but a path is";
  EXPECT_EQ(verdicts[0].suspects[0].process, -1);
  EXPECT_EQ(verdicts[0].suspects[0].path, 1);
}

TEST(Diagnose, says_when_a_restart_does_not_help) {
  Telemetry telemetry = job(4);
  telemetry.processes[3].state = ProcessState::killed;
  telemetry.past = {{FaultClass::crashed, "node1", 9, "", ""}, {FaultClass::crashed, "node0", 1, "", ""}};
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), (Faults{FaultClass::crashed, FaultClass::repeated}));
  EXPECT_NE(verdicts[1].text.find("1 time before"), std::string::npos) << verdicts[1].text;
}

TEST(Diagnose, puts_nothing_down_to_the_only_host_or_to_another_job) {
  Telemetry telemetry = job(4);
  for (ProcessFacts& each : telemetry.processes) each.host = "node";
  telemetry.command = "train";
  telemetry.processes[3].state = ProcessState::killed;
  telemetry.past = {{FaultClass::crashed, "node", 1, "", ""}};
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::crashed}) << "all faults are on that host";
  telemetry.communicators[0].members[3].operations.push_back({});
  const std::string place = diagnose(telemetry)[0].place;
  ASSERT_FALSE(place.empty());
  telemetry.past = {{FaultClass::crashed, "node", 3, place, "other"}};
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::crashed});
  telemetry.past = {{FaultClass::crashed, "node", 3, place, "train"}};
  EXPECT_EQ(faults_of(diagnose(telemetry)), (Faults{FaultClass::crashed, FaultClass::repeated}));
}

TEST(Diagnose, blames_nobody_of_a_job_that_is_cancelled) {
  Telemetry telemetry = job(4);
  for (const int rank : {1, 2, 3}) {
    telemetry.processes[static_cast<std::size_t>(rank)].state = ProcessState::ended;
    telemetry.processes[static_cast<std::size_t>(rank)].told_to_end = true;
  }
  // Ranks that were told last saw the others go.
  for (const int rank : {0, 3}) {
    member(telemetry, rank).state = MemberFacts::State::broken;
    member(telemetry, rank).accused = 1;
  }
  EXPECT_TRUE(diagnose(telemetry).empty());
  telemetry.processes[1].told_to_end = false;
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::crashed}) << "it left by itself";
}

TEST(Diagnose, knows_who_has_entered_where_numbers_wrap) {
  Telemetry telemetry = job(3);
  for (const int rank : {0, 1}) enter(telemetry, rank, 5);
  for (const int rank : {0, 1}) member(telemetry, rank).operations[0].call.number = 2;
  member(telemetry, 2).last_done = 0xFFFFFFFE;
  auto verdicts = diagnose(telemetry);
  ASSERT_EQ(faults_of(verdicts), Faults{FaultClass::not_entered});
  EXPECT_EQ(ranks_of(verdicts[0]), Ranks{2});
  for (const int rank : {0, 1}) member(telemetry, rank).operations[0].call.number = 0xFFFFFFFF;
  member(telemetry, 2).last_done = 1;
  verdicts = diagnose(telemetry);
  for (const Verdict& each : verdicts) EXPECT_NE(each.fault, FaultClass::not_entered) << "it is through with that";
}

TEST(Diagnose, names_some_of_very_many_that_may_be_missing) {
  Telemetry telemetry = job(2);
  telemetry.communicators[0].size = 1 << 20;
  enter(telemetry, 0, 20);
  enter(telemetry, 1, 20);
  const auto verdicts = diagnose(telemetry);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_LE(verdicts[0].suspects.size(), 1024U);
}

TEST(Diagnose, calls_a_straggler_that_comes_back_no_reason_against_a_restart) {
  Telemetry telemetry = job(4);
  telemetry.communicators[0].waits = {{0, 1, 3, 0.3}, {2, 1, 3, 0.3}, {3, 1, 3, 0.3}};
  telemetry.past = {{FaultClass::straggler, "node0", 1, "", ""}};
  EXPECT_EQ(faults_of(diagnose(telemetry)), Faults{FaultClass::straggler});
}

}  // namespace
}  // namespace tutti::diagnosis
