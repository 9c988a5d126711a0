#include "engine/waiter.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using Next = Waiter::Next;

constexpr std::uint64_t kForever = ~std::uint64_t{0} / 8;
constexpr int kEagerPolls = 63;  // that return without a look at the clock

/// Pauses so often that the next pause looks at the clock.
void be_eager(Waiter& waiter) {
  for (int i = 0; i < kEagerPolls; ++i) ASSERT_EQ(waiter.pause(), Next::again);
}

TEST(Waiter, PollsAWhileBeforeItLooksAtTheClock) {
  Waiter waiter({.spin = 1, .yield = 1});
  be_eager(waiter);
  EXPECT_EQ(waiter.since(), 0u);
  EXPECT_EQ(waiter.idle_microseconds(), 0);
  const std::uint64_t before = ticks();
  waiter.pause();
  EXPECT_GE(waiter.since(), before);
  EXPECT_GT(waiter.idle_microseconds(), 0);
}

TEST(Waiter, SleepsAtOnceIfItShallNeitherSpinNorYield) {
  Waiter waiter({.spin = 0, .yield = 0});
  EXPECT_EQ(waiter.pause(), Next::sleep);
  EXPECT_NE(waiter.since(), 0u);
}

TEST(Waiter, SpinsThenYieldsThenSleeps) {
  const std::uint64_t spin = ticks_of_microseconds(50);
  const std::uint64_t yield = ticks_of_microseconds(200);
  Waiter waiter({.spin = spin, .yield = yield});
  be_eager(waiter);
  while (waiter.pause() == Next::again) {
  }
  EXPECT_GE(ticks() - waiter.since(), yield);
  EXPECT_EQ(waiter.pause(), Next::sleep) << "for as long as nothing moves";
}

TEST(Waiter, DoesNotSleepBeforeItsTimeToYieldIsOver) {
  Waiter spins({.spin = kForever, .yield = kForever});
  Waiter yields({.spin = 0, .yield = kForever});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(spins.pause(), Next::again);
    ASSERT_EQ(yields.pause(), Next::again);
  }
}

TEST(Waiter, StartsOverWhenSomethingMoves) {
  Waiter waiter({.spin = 1, .yield = 1});
  be_eager(waiter);
  while (waiter.pause() == Next::again) {
  }
  waiter.reset();
  EXPECT_EQ(waiter.since(), 0u);
  be_eager(waiter);
  EXPECT_EQ(waiter.since(), 0u);
}

TEST(WaitHabit, YieldsAtOnceWhereSpinningKeptTheCoreFromWhoWasWaitedFor) {
  WaitHabit habit;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::uint64_t start = ticks();
    sched_yield();
    // As if whoever got the core had given it back after half the time that we spin.
    const std::uint64_t spin = 2 * (ticks() - start);
    Waiter waiter({.spin = spin, .yield = kForever}, &habit);
    be_eager(waiter);
    waiter.pause();
    while (ticks() - waiter.since() <= spin) {
    }
    waiter.pause();
    EXPECT_FALSE(habit.yields_at_once) << "not before what was waited for is there";
    waiter.reset();
    if (!habit.yields_at_once) continue;
    habit.yields_at_once = false;
    waiter.reset();
    EXPECT_FALSE(habit.yields_at_once) << "one wait teaches once";
    return;
  }
  FAIL() << "no yield took about as long as the one before";
}

TEST(WaitHabit, IsNotLearnedFromAYieldThatTookLong) {
  WaitHabit habit;
  Waiter waiter({.spin = 1, .yield = kForever}, &habit);
  be_eager(waiter);
  for (int i = 0; i < 20; ++i) waiter.pause();
  waiter.reset();
  EXPECT_FALSE(habit.yields_at_once);
}

TEST(WaitHabit, EndsWhereAYieldTakesLong) {
  WaitHabit habit;
  habit.yields_at_once = true;
  Waiter waiter({.spin = 1, .yield = kForever}, &habit);
  be_eager(waiter);
  EXPECT_TRUE(habit.yields_at_once);
  waiter.pause();
  EXPECT_FALSE(habit.yields_at_once) << "somebody is at work there";
}

TEST(WaitHabit, EndsWhereNobodyWantsTheCore) {
  WaitHabit habit;
  habit.yields_at_once = true;
  Waiter waiter({.spin = kForever / 16, .yield = kForever}, &habit);
  be_eager(waiter);
  for (int yields = 0; yields < 7; ++yields) waiter.pause();
  EXPECT_TRUE(habit.yields_at_once);
  waiter.pause();
  EXPECT_FALSE(habit.yields_at_once) << "eight yields took no time";
}

TEST(WaitPolicy, DoesNotSpinWhereRanksShareCores) {
  const WaitPolicy alone = WaitPolicy::of(false);
  const WaitPolicy crowded = WaitPolicy::of(true);
  EXPECT_EQ(alone.spin, ticks_of_microseconds(settings().spin_us));
  EXPECT_EQ(crowded.spin, 0u);
  EXPECT_EQ(crowded.yield, ticks_of_microseconds(settings().yield_us));
  EXPECT_EQ(alone.yield, alone.spin + crowded.yield);
}

}  // namespace
}  // namespace tutti
