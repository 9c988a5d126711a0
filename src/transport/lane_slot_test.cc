#include "transport/lane_slot.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti {
namespace {

const LaneTimes kTimes;

TEST(LaneSlot, IsDialedAtOnceAndAgainAfterGrowingPauses) {
  LaneSlot slot(kTimes, true, 10);
  EXPECT_EQ(slot.due(false), 10);
  double now = 10;
  double before = 0;
  for (std::uint32_t epoch = 1; epoch < 12; ++epoch) {
    EXPECT_EQ(slot.dial(now), epoch);
    EXPECT_EQ(slot.state(), LaneState::probing);
    EXPECT_EQ(slot.due(false), kNever) << "an attempt is under way";
    slot.failed(now, "no answer", false);
    const double pause = slot.due(false) - now;
    EXPECT_GE(pause, before);
    EXPECT_LE(pause, kTimes.longest_pause);
    before = pause;
    now = slot.due(false);
  }
  EXPECT_EQ(slot.absences(), 0);
}

TEST(LaneSlot, WhoIsDialedWaits) {
  LaneSlot slot(kTimes, false, 0);
  EXPECT_EQ(slot.due(false), kNever);
  slot.up(1, 1);
  slot.lost(2, "reset");
  EXPECT_EQ(slot.due(false), kNever);
  EXPECT_EQ(slot.state(), LaneState::dead);
  slot.fenced(3);
  EXPECT_EQ(slot.state(), LaneState::held_down);
}

TEST(LaneSlot, SilenceMakesItSuspectAndThenDead) {
  LaneSlot slot(kTimes, true, 0);
  slot.up(0, slot.dial(0));
  EXPECT_FALSE(slot.silent({kTimes.suspect / 2}, true));
  EXPECT_EQ(slot.state(), LaneState::healthy);
  EXPECT_FALSE(slot.silent({kTimes.suspect}, true));
  EXPECT_EQ(slot.state(), LaneState::suspect);
  EXPECT_TRUE(slot.in_use());
  EXPECT_FALSE(slot.silent({0}, true)) << "it was heard again";
  EXPECT_EQ(slot.state(), LaneState::healthy);
  EXPECT_FALSE(slot.silent({kTimes.suspect}, true));
  EXPECT_TRUE(slot.silent({kTimes.dead}, true));
}

TEST(LaneSlot, IsGivenUpIfItCorruptsAgainAndAgainBesideOthers) {
  LaneSlot slot(kTimes, true, 0);
  slot.up(0, slot.dial(0));
  EXPECT_FALSE(slot.corrupted(1, true));
  EXPECT_FALSE(slot.corrupted(1 + kTimes.corrupting, true));
  EXPECT_FALSE(slot.corrupted(2 + kTimes.corrupting, true)) << "it is long since the first";
  EXPECT_FALSE(slot.corrupted(3 + kTimes.corrupting, true));
  EXPECT_TRUE(slot.corrupted(4 + kTimes.corrupting, true));
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(slot.corrupted(5 + kTimes.corrupting, false)) << "there is no other";
  slot.lost(20, "corrupted");
  slot.up(21, slot.dial(20));
  EXPECT_FALSE(slot.corrupted(21, true)) << "a new incarnation";
}

TEST(LaneSlot, HowLongSilenceIsBorneDependsOnTheWayAndOnOtherLanes) {
  using Way = Silence::Way;
  const auto borne = [](Way way, bool others) {
    LaneSlot slot(kTimes, true, 0);
    slot.up(0, slot.dial(0));
    double seconds = 0;
    while (!slot.silent({seconds, way}, others)) seconds += 0.01;
    return seconds;
  };
  EXPECT_NEAR(borne(Way::shut, true), kTimes.dead_shut, 0.011);
  EXPECT_NEAR(borne(Way::shut, false), kTimes.dead, 0.011) << "there is nothing to go to: no hurry";
  EXPECT_NEAR(borne(Way::unknown, true), kTimes.dead, 0.011);
  EXPECT_NEAR(borne(Way::open, true), kTimes.dead_open, 0.011) << "packets were lost, but the way is there";
  EXPECT_NEAR(borne(Way::open, false), kTimes.dead_open, 0.011);
}

TEST(LaneSlot, TheHoldDoublesWhileItFlapsAndBeginsAnewOnceItLasted) {
  LaneSlot slot(kTimes, true, 0);
  double now = 0;
  double expected = kTimes.first_hold;
  for (int times = 0; times < 10; ++times) {
    slot.up(now, slot.dial(now));
    now += 0.01;
    slot.lost(now, "no carrier");
    EXPECT_NEAR(slot.due(false) - now, expected, 1e-9);
    expected = std::min(2 * expected, kTimes.longest_hold);
    now = slot.due(false);
  }
  slot.up(now, slot.dial(now));
  now += 4 * kTimes.longest_hold + 1;
  slot.lost(now, "no carrier");
  EXPECT_NEAR(slot.due(false) - now, kTimes.first_hold, 1e-9);
}

TEST(LaneSlot, WithoutAnotherLaneItIsDialedAtOnceThenAfterPausesThatGrow) {
  LaneSlot slot(kTimes, true, 0);
  slot.up(0, slot.dial(0));
  slot.lost(5, "reset");
  EXPECT_EQ(slot.due(true), 5) << "there is nothing to protect from a lane that comes and goes";
  double now = 5;
  double before = 0;
  for (int times = 0; times < 10; ++times) {
    slot.up(now, slot.dial(now));
    slot.lost(now + 0.001, "reset");
    const double pause = slot.due(true) - now - 0.001;
    EXPECT_GT(pause, 0) << "it did not last";
    EXPECT_GE(pause, before);
    EXPECT_LE(pause, kTimes.longest_urgent + 1e-9);
    EXPECT_LE(slot.due(true), slot.due(false));
    before = pause;
    now = slot.due(true);
  }
  slot.up(now, slot.dial(now));
  slot.lost(now + 1, "reset");
  EXPECT_EQ(slot.due(true), now + 1) << "it lasted";
}

TEST(LaneSlot, AnAttemptThatWasMadeAloneDoesNotEndTheHold) {
  LaneSlot slot(kTimes, true, 0);
  slot.up(0, slot.dial(0));
  slot.lost(5, "reset");
  slot.dial(slot.due(true));
  slot.failed(5.001, "reset", false);
  EXPECT_LT(slot.due(true), 5.001 + 2 * kTimes.first_pause);
  EXPECT_DOUBLE_EQ(slot.due(false), 5 + kTimes.first_hold);
}

TEST(LaneSlot, ACarrierEndsThePausesButNotTheHold) {
  LaneSlot slot(kTimes, true, 0);
  slot.up(0, slot.dial(0));
  slot.lost(1, "no carrier");
  slot.port_back(1.01);
  EXPECT_DOUBLE_EQ(slot.due(false), 1 + kTimes.first_hold);
  double now = slot.due(false);
  for (int times = 0; times < 8; ++times) {
    slot.dial(now);
    slot.failed(now, "no answer", false);
    now = slot.due(false);
  }
  slot.port_back(now - kTimes.longest_pause);
  EXPECT_LE(slot.due(false), now - kTimes.longest_pause + kTimes.first_pause);
}

TEST(LaneSlot, NoIncarnationThatIsOverComesUp) {
  LaneSlot slot(kTimes, false, 0);
  slot.up(0, 3);
  slot.lost(1, "reset");
  EXPECT_FALSE(slot.may_come_up(3));
  EXPECT_FALSE(slot.may_come_up(2));
  EXPECT_TRUE(slot.may_come_up(4));
  slot.end(6);
  EXPECT_FALSE(slot.may_come_up(6)) << "the peer has lost it before we saw it";
  EXPECT_TRUE(slot.may_come_up(7));
}

TEST(LaneSlot, EveryAttemptIsAnIncarnationOfItsOwn) {
  LaneSlot slot(kTimes, true, 0);
  EXPECT_EQ(slot.dial(0), 1u);
  slot.failed(0, "refused", true);
  slot.end(5);
  EXPECT_EQ(slot.dial(1), 6u);
  EXPECT_EQ(slot.absences(), 1);
  slot.failed(1, "no answer", false);
  EXPECT_EQ(slot.absences(), 0) << "somebody may be there";
}

}  // namespace
}  // namespace tutti
