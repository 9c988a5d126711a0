#include "monitor/lane_monitor.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "monitor/step_fit.hpp"
#include "monitor/usual_cost.hpp"

namespace tutti::monitor {
namespace {

constexpr std::uint32_t kBytes = 100'000;
constexpr double kEach = 1e-3;  // seconds that a chunk takes: 100 MB/s

/// Chunks on a lane whose clock is moved by hand.
class Lane {
 public:
  explicit Lane(int window = 8)
      : monitor_({window, 1e9, 0.05, 0.05, 5.0}, {}, nullptr,
                 [this](const Event& event) { events_.push_back(event); }) {}

  /// One chunk after the other, always two outstanding.
  void flow(int chunks, double each = kEach, const PathView& view = {0, 1, 0, false, 0, 0}) {
    for (int i = 0; i < chunks; ++i) {
      while (posted_.size() < 2) post();
      now_ += each;
      if (monitor_.look_due() <= now_) monitor_.look(moved(view), now_, false);
      complete();
    }
  }
  void idle(double seconds) {
    while (!posted_.empty()) {
      now_ += kEach;
      complete();
    }
    now_ += seconds;
  }
  void post() {
    monitor_.post({now_, kBytes, handed_over_});
    handed_over_ += kBytes;
    posted_.push_back(now_);
  }
  void complete() {
    monitor_.complete({posted_.front(), now_, kBytes, operation, refused});
    posted_.erase(posted_.begin());
    monitor_.judge(now_);
  }
  /// Nothing completes for so long, while somebody looks.
  void wait(double seconds, const PathView& view) {
    const double end = now_ + seconds;
    for (; now_ < end; now_ += kEach / 2)
      if (monitor_.look_due() <= now_) monitor_.look(moved(view), now_, false);
  }

  LaneMonitor& monitor() { return monitor_; }
  double now() const { return now_; }
  std::vector<Event> take_events() { return std::exchange(events_, {}); }

  std::uint64_t operation = 1;
  double refused = 0;

 private:
  // What is not on the path has been delivered.
  PathView moved(PathView view) const {
    view.delivered = view.in_path != 0 ? handed_over_ - kBytes * posted_.size() : handed_over_;
    return view;
  }

  std::vector<Event> events_;
  LaneMonitor monitor_;
  double now_ = 1;
  std::uint64_t handed_over_ = 0;
  std::vector<double> posted_;
};

double seconds(std::uint64_t stamp) { return static_cast<double>(stamp) * 1e-9; }

TEST(LaneMonitor, TakesTheRateOfAWindowFromTheTimeThatChunksTook) {
  Lane lane(4);
  lane.flow(100);
  EXPECT_NEAR(lane.monitor().rate(), kBytes / kEach, 1);
  lane.flow(2, 3 * kEach);
  EXPECT_NEAR(lane.monitor().rate(), 4 * kBytes / (8 * kEach), 1);
  EXPECT_NEAR(lane.monitor().usual(), kBytes / kEach, 1);
}

TEST(LaneMonitor, DoesNotTakeALaneWithoutWorkForSlow) {
  Lane lane;
  for (int round = 0; round < 30; ++round) {
    lane.operation = static_cast<std::uint64_t>(round);
    lane.flow(20);
    lane.idle(0.1);
  }
  EXPECT_TRUE(lane.take_events().empty());
}

TEST(LaneMonitor, TellsWhenADropBeganAndEndedAndHowDeepItWas) {
  for (const int window : {1, 8, 32}) {
    Lane lane(window);
    lane.flow(400);
    const double cut = lane.now();
    lane.flow(100, 2 * kEach);
    const double back = lane.now();
    lane.flow(200);
    const auto told = lane.take_events();
    ASSERT_EQ(told.size(), 2u) << window;
    EXPECT_EQ(told[0].kind, EventKind::lane_dropped);
    EXPECT_EQ(told[1].kind, EventKind::lane_recovered);
    EXPECT_EQ(told[1].cause, Cause::path_congested);
    EXPECT_NEAR(seconds(told[1].began), cut, 2 * kEach);
    EXPECT_NEAR(seconds(told[1].at), back, 2 * kEach);
    EXPECT_NEAR(told[1].values[1] / told[1].values[0], 0.5, 0.02);
    EXPECT_EQ(lane.monitor().condition(), Condition::normal);
  }
}

TEST(LaneMonitor, ADropLongerThanItRemembersIsToldToo) {
  Lane lane;
  lane.flow(400);
  const double cut = lane.now();
  lane.flow(2000, 2 * kEach);
  lane.flow(100);
  const auto told = lane.take_events();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NEAR(seconds(told[1].began), cut, 2 * kEach);
  EXPECT_NEAR(told[1].values[1] / told[1].values[0], 0.5, 0.02);
  EXPECT_NEAR(told[1].values[2], 4, 0.01);
}

TEST(LaneMonitor, OneChunkThatTookLongIsNoDrop) {
  Lane lane;
  lane.flow(400);
  lane.flow(1, 20 * kEach);
  lane.flow(100);
  EXPECT_TRUE(lane.take_events().empty());
}

TEST(LaneMonitor, BlamesTheReceiverForWhatHadCome) {
  Lane lane;
  lane.flow(400);
  lane.flow(100, 2 * kEach, {0, 0, 0, false, 0, 0});
  lane.flow(100);
  const auto told = lane.take_events();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1].cause, Cause::receiver_late);
}

TEST(LaneMonitor, BlamesTheReceiverWhereThereWasNoCredit) {
  Lane lane;
  lane.flow(400);
  for (int i = 0; i < 30; ++i) {
    lane.idle(5 * kEach);
    lane.refused += 5 * kEach;
    lane.flow(1);
  }
  lane.flow(100);
  const auto told = lane.take_events();
  ASSERT_GE(told.size(), 2u);
  EXPECT_EQ(told[1].cause, Cause::receiver_late);
}

TEST(LaneMonitor, BlamesTheSenderForIdleTimeInTheMidstOfAnOperation) {
  Lane lane;
  lane.flow(400);
  for (int i = 0; i < 30; ++i) {
    lane.idle(5 * kEach);
    lane.flow(1);
  }
  lane.flow(100);
  const auto told = lane.take_events();
  ASSERT_GE(told.size(), 2u);
  EXPECT_EQ(told[1].cause, Cause::sender_starved);
}

TEST(LaneMonitor, TellsAStallWhileItLastsAndWhereItIs) {
  for (const bool on_path : {true, false}) {
    Lane lane;
    lane.flow(400);
    lane.post();
    const double from = lane.now();
    lane.wait(0.2, {0, on_path ? 1u : 0u, 0, false, 0, 0});
    const auto told = lane.take_events();
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].kind, EventKind::lane_stalled);
    EXPECT_EQ(told[0].cause, on_path ? Cause::path_congested : Cause::receiver_late);
    EXPECT_NEAR(seconds(told[0].began), from, 1e-6);
    EXPECT_EQ(lane.monitor().condition(), Condition::stalled);
    lane.flow(100);
    const auto after = lane.take_events();
    ASSERT_EQ(after.size(), 1u);
    EXPECT_EQ(after[0].kind, EventKind::lane_recovered);
  }
}

TEST(LaneMonitor, WhatLastsForSecondsIsUsual) {
  Lane lane;
  lane.flow(400);
  lane.flow(4000, 2 * kEach);
  EXPECT_EQ(lane.monitor().condition(), Condition::normal);
  EXPECT_NEAR(lane.monitor().usual(), kBytes / kEach / 2, 1);
  lane.take_events();
  lane.flow(400, 2 * kEach);
  EXPECT_TRUE(lane.take_events().empty());
}

TEST(UsualCost, IsTheMiddleOfWhatItSaw) {
  UsualCost usual;
  for (int i = 0; i < 8; ++i) usual.add({i == 3 ? 100.0 : 1.0, 0, 0});
  ASSERT_TRUE(usual.is_known());
  EXPECT_DOUBLE_EQ(usual.cost().total(), 1);
}

TEST(UsualLead, IsTheShortestOfTheLast) {
  UsualLead lead;
  EXPECT_EQ(lead.seconds(1e-9), 0);
  for (int i = 8; i > 0; --i) lead.add(i * 1e-3 + 100 * 1e-9, 100, 1e-9);
  EXPECT_NEAR(lead.seconds(1e-9), 1e-3, 1e-9);
}

TEST(FitStep, FindsWhereALevelChanged) {
  std::vector<Piece> pieces;
  for (int i = 0; i < 50; ++i) pieces.push_back({1, i < 30 ? 1.0 : 2.0});
  EXPECT_EQ(fit_step(pieces, true), 30u);
  EXPECT_EQ(fit_step(pieces, false), 0u);
  EXPECT_EQ(fit_step({}, true), 0u);
}

}  // namespace
}  // namespace tutti::monitor
