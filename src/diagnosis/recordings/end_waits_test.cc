#include "diagnosis/recordings/end_waits.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diagnosis/diagnose.hpp"
#include "diagnosis/merge/merge_telemetry.hpp"
#include "diagnosis/recordings/recording_observer.hpp"

namespace tutti::diagnosis {
namespace {

using monitor::CommunicatorRecord;
using monitor::CommunicatorView;
using monitor::OperationView;
using monitor::ProcessView;

constexpr double kNow = 1000;
constexpr int kStages = 4;
constexpr double kLook = 0.7;  // seconds

OperationView end(bool sends, int peer) {
  OperationView view;
  view.collective = Collective::point_to_point;
  view.sends = sends;
  view.root = peer;
  view.entered = kNow - 2;
  view.done = kNow - 1;
  return view;
}

/// A stage that has waited for its neighbours for a share of the time since the first look.
ProcessView stage(int rank, int looks, double share, int awaited) {
  ProcessView view;
  view.file = "7-" + std::to_string(rank);
  view.pid = 100 + rank;
  view.host = "node" + std::to_string(rank / 2);
  view.alive = true;
  CommunicatorView communicator;
  communicator.state = CommunicatorRecord::alive;
  communicator.id = communicator.job = 7;
  communicator.rank = rank;
  communicator.size = kStages;
  communicator.hosts = 2;
  communicator.name = "world";
  communicator.ends_entered = communicator.ends_done = static_cast<std::uint64_t>(100 * looks);
  communicator.operations = {end(true, awaited), end(false, awaited)};
  communicator.waits = {{awaited, share * kLook * looks}};
  view.communicators.push_back(communicator);
  return view;
}

/// Stage 2 computes for longest, the others wait for it, each by way of its neighbour.
std::vector<ProcessView> pipeline(int looks, double share = 0.4) {
  return {stage(0, looks, share, 1), stage(1, looks, share, 2), stage(2, looks, 0.01, 1), stage(3, looks, share, 2)};
}

monitor::Snapshot at(int looks, std::vector<ProcessView> processes) {
  monitor::Snapshot snapshot;
  snapshot.now = kNow + kLook * looks;
  snapshot.processes = std::move(processes);
  return snapshot;
}

std::vector<Verdict> verdicts_after(int looks, const auto& processes_at) {
  RecordingObserver observer;
  std::vector<Telemetry> telemetry;
  for (int look = 1; look <= looks; ++look) telemetry = observer.observe(at(look, processes_at(look)), {});
  return diagnose(telemetry.at(0));
}

TEST(EndWaits, name_the_stage_that_others_wait_for) {
  const auto verdicts = verdicts_after(12, [](int look) { return pipeline(look); });
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].fault, FaultClass::straggler);
  EXPECT_EQ(verdicts[0].suspects[0].rank, 2);
}

TEST(EndWaits, say_nothing_after_a_few_looks) {
  EXPECT_TRUE(verdicts_after(4, [](int look) { return pipeline(look); }).empty());
}

TEST(EndWaits, say_nothing_of_a_long_pause) {
  const auto verdicts = verdicts_after(16, [](int look) {
    std::vector<ProcessView> processes = pipeline(look, 0.01);
    if (look > 10)  // rank 2 writes a checkpoint meanwhile
      for (ProcessView& view : processes)
        if (view.pid != 102) view.communicators[0].waits[0].seconds += kLook * std::min(look - 10, 4);
    return processes;
  });
  EXPECT_TRUE(verdicts.empty());
}

TEST(EndWaits, are_meant_to_be_where_ranks_only_receive) {
  const auto verdicts = verdicts_after(12, [](int look) {
    std::vector<ProcessView> processes = pipeline(look);
    for (ProcessView& view : processes)  // rank 2 hands out work
      std::erase_if(view.communicators[0].operations,
                    [&](const auto& each) { return each.sends != (view.pid == 102); });
    return processes;
  });
  EXPECT_TRUE(verdicts.empty());
}

TEST(EndWaits, are_put_together_from_all_hosts) {
  RecordingObserver observers[2] = {RecordingObserver(RecordingObserver::Reach::job),
                                    RecordingObserver(RecordingObserver::Reach::job)};
  std::vector<Telemetry> told[2];
  for (int look = 1; look <= 12; ++look)
    for (int host = 0; host < 2; ++host) {
      std::vector<ProcessView> all = pipeline(look);
      std::erase_if(all, [&](const ProcessView& view) { return view.host != "node" + std::to_string(host); });
      told[host] = observers[host].observe(at(look, all), {});
    }
  std::vector<HostTelemetry> hosts(2);
  for (std::size_t host = 0; host < 2; ++host) hosts[host].telemetry = told[host].data();
  const auto whole = diagnose(merge_telemetry(hosts).at(0));
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].suspects[0].rank, 2);
  EXPECT_TRUE(diagnose(told[1].at(0)).empty()) << "one host knows a part of the ranks";
}

}  // namespace
}  // namespace tutti::diagnosis
