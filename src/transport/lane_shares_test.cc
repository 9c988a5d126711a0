#include "transport/lane_shares.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

constexpr std::size_t kChunk = 128 << 10;
constexpr double kFast = 50e6;  // bytes per second

/// Lanes that do chunks one after the other at a rate of their own; each arrives `delay` seconds later.
class Lanes {
 public:
  explicit Lanes(std::uint32_t count, double delay = 0) : shares(kChunk), delay_(delay), rates_(count, kFast) {
    for (std::uint32_t lane = 0; lane < count; ++lane) shares.lane_up(key_of(lane, 1), 0);
  }

  void set_rate(std::uint32_t lane, double rate) { rates_[lane] = rate; }

  /// Posts so many chunks to a lane at once; the time at which the last is acknowledged.
  double burst(std::uint32_t lane, int chunks) {
    double at = now;
    for (int chunk = 0; chunk < chunks; ++chunk) shares.post(key_of(lane, 1), kChunk);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      at += kChunk / rates_[lane];
      EXPECT_TRUE(shares.done(key_of(lane, 1), kChunk, now, at + delay_));
      shares.settle(at + delay_);
    }
    return at + delay_;
  }

  /// An operation with so many chunks on each lane, and a pause after it.
  void operation(std::initializer_list<int> chunks, double pause = 0.002) {
    double end = now;
    std::uint32_t lane = 0;
    for (const int count : chunks) end = std::max(end, burst(lane++, count));
    now = end + pause;
  }

  double trial(std::uint32_t lane) {
    EXPECT_TRUE(shares.wants_trial(lane, now));
    shares.trial_posted(key_of(lane, 1), now);
    now += static_cast<double>(shares.trial_bytes()) / rates_[lane] + delay_;
    shares.trial_done(key_of(lane, 1), now, now);
    return shares.rate(lane);
  }

  LaneShares shares;
  double now = 1;

 private:
  double delay_;
  std::vector<double> rates_;
};

TEST(LaneShares, LanesOfWhichNothingIsKnownAreEqual) {
  Lanes lanes(2);
  EXPECT_EQ(lanes.shares.rate(0), 0);
  EXPECT_FALSE(lanes.shares.is_slow(0) || lanes.shares.is_slow(1));
  EXPECT_EQ(lanes.shares.end(0, 100), lanes.shares.end(1, 100));
}

TEST(LaneShares, ALaneMayHaveEightChunksOutstanding) {
  Lanes lanes(2);
  for (int chunk = 0; chunk < 8; ++chunk) {
    EXPECT_TRUE(lanes.shares.has_room(0));
    lanes.shares.post(key_of(0, 1), kChunk);
  }
  EXPECT_FALSE(lanes.shares.has_room(0));
  EXPECT_TRUE(lanes.shares.has_room(1));
}

// Each operation gives a lane one chunk, so that none is done right after another.
TEST(LaneShares, SingleChunksWithPausesTellTheRate) {
  Lanes lanes(2);
  lanes.set_rate(1, kFast / 4);
  for (int i = 0; i < 50; ++i) lanes.operation({1, 1});
  EXPECT_NEAR(lanes.shares.rate(0), kFast, 0.01 * kFast);
  EXPECT_NEAR(lanes.shares.rate(1), kFast / 4, 0.01 * kFast);
}

TEST(LaneShares, TheDelayOfTheWayIsNotTheLanesFault) {
  Lanes lanes(2, 0.005);
  lanes.set_rate(1, kFast / 4);
  for (int i = 0; i < 50; ++i) lanes.operation({4, 1});
  EXPECT_NEAR(lanes.shares.rate(0), kFast, 0.1 * kFast);
  EXPECT_NEAR(lanes.shares.rate(1), kFast / 4, 0.1 * kFast / 4);
}

TEST(LaneShares, OfEqualLanesTheOneWithLessToDoIsNotTakenForSlow) {
  Lanes lanes(2, 0.005);
  for (int i = 0; i < 100; ++i) lanes.operation({3, 1});
  EXPECT_FALSE(lanes.shares.is_slow(1)) << lanes.shares.rate(1);
}

TEST(LaneShares, PausesChangeNothing) {
  Lanes lanes(2);
  lanes.set_rate(1, kFast / 4);
  for (int i = 0; i < 20; ++i) lanes.operation({2, 2});
  const double before = lanes.shares.rate(1);
  lanes.now += 100;
  EXPECT_EQ(lanes.shares.rate(1), before);
  lanes.set_rate(1, kFast);
  lanes.operation({2, 2});
  lanes.set_rate(1, kFast / 4);
  lanes.operation({2, 2});
  EXPECT_TRUE(lanes.shares.is_slow(1));
}

TEST(LaneShares, ALaneCutTo15PercentIsSlowWithinASecond) {
  Lanes lanes(2);
  for (int i = 0; i < 100; ++i) lanes.operation({2, 2});
  EXPECT_FALSE(lanes.shares.is_slow(1));
  lanes.set_rate(1, 0.15 * kFast);
  const double cut = lanes.now;
  while (lanes.now < cut + 1 && lanes.shares.rate(1) > 0.2 * kFast) lanes.operation({2, 1});
  EXPECT_LT(lanes.now - cut, 0.5);
}

TEST(LaneShares, ASlowLaneThatGetsNothingIsTried) {
  Lanes lanes(2);
  lanes.set_rate(1, 0.15 * kFast);
  for (int i = 0; i < 20; ++i) lanes.operation({4, 1});
  EXPECT_TRUE(lanes.shares.is_slow(1));
  EXPECT_FALSE(lanes.shares.may_want_trials(lanes.now));
  EXPECT_FALSE(lanes.shares.wants_trial(1, lanes.now));
  lanes.operation({4, 0}, 0.2);
  EXPECT_TRUE(lanes.shares.may_want_trials(lanes.now));
  EXPECT_FALSE(lanes.shares.wants_trial(0, lanes.now));
  lanes.trial(1);
  EXPECT_TRUE(lanes.shares.is_idle(1));
  EXPECT_TRUE(lanes.shares.is_slow(1));
  EXPECT_FALSE(lanes.shares.wants_trial(1, lanes.now));
}

TEST(LaneShares, FourTrialsAreEnoughToReturn) {
  Lanes lanes(2);
  lanes.set_rate(1, 0.15 * kFast);
  for (int i = 0; i < 20; ++i) lanes.operation({4, 1});
  lanes.set_rate(1, kFast);
  int trials = 0;
  while (lanes.shares.is_slow(1) && trials < 10) {
    lanes.operation({4, 0}, 0.2);
    lanes.trial(1);
    ++trials;
  }
  EXPECT_LE(trials, 4);
}

// As token buckets do: only what comes after the first chunk goes at the lane's own rate.
TEST(LaneShares, AChunkThatASlowLaneTakesAtOnceShowsNothing) {
  Lanes lanes(2);
  lanes.set_rate(1, 0.15 * kFast);
  for (int operation = 0; operation < 40; ++operation) lanes.operation({8, 2});
  const double rate = lanes.shares.rate(1);
  EXPECT_NEAR(rate, 0.15 * kFast, 0.01 * kFast);
  lanes.set_rate(1, kFast);
  for (int operation = 0; operation < 40; ++operation) lanes.operation({7, 1});
  EXPECT_EQ(lanes.shares.rate(1), rate);
  EXPECT_TRUE(lanes.shares.wants_trial(1, lanes.now)) << "what shows nothing puts off no trial";
}

TEST(LaneShares, ATrialIsOutstandingAndOneIsEnough) {
  Lanes lanes(2);
  lanes.set_rate(1, 0.15 * kFast);
  for (int i = 0; i < 20; ++i) lanes.operation({4, 1});
  lanes.operation({4, 0}, 0.2);
  lanes.shares.trial_posted(key_of(1, 1), lanes.now);
  EXPECT_FALSE(lanes.shares.is_idle(1));
  EXPECT_FALSE(lanes.shares.wants_trial(1, lanes.now + 1));
  EXPECT_TRUE(lanes.shares.wants_trial(1, lanes.now + 10)) << "its answer was lost";
  lanes.shares.trial_posted(key_of(1, 1), lanes.now + 10);
  lanes.shares.trial_done(key_of(1, 1), lanes.now + 10.1, lanes.now + 10.1);
  lanes.shares.trial_done(key_of(1, 1), lanes.now + 10.2, lanes.now + 10.2);
  EXPECT_TRUE(lanes.shares.is_idle(1));
}

// The fast lane may have so much outstanding that the slow one's next chunk ends no later.
TEST(LaneShares, ASlowLaneGetsChunksOfLongOperations) {
  Lanes lanes(2);
  lanes.set_rate(1, 0.15 * kFast);
  for (int i = 0; i < 20; ++i) lanes.operation({4, 1});
  int fast = 0;
  while (lanes.shares.end(0, kChunk) <= lanes.shares.end(1, kChunk) && fast < 20) {
    ASSERT_TRUE(lanes.shares.has_room(0)) << fast;
    lanes.shares.post(key_of(0, 1), kChunk);
    ++fast;
  }
  EXPECT_NEAR(fast, 8, 1);
  EXPECT_TRUE(lanes.shares.has_room(1));
}

// A process that does not run for a while sees late acknowledgements.
TEST(LaneShares, AStandstillDoesNotMakeALaneSlow) {
  Lanes lanes(2);
  lanes.set_rate(0, 1e9);
  lanes.set_rate(1, 1e9);
  for (int i = 0; i < 1000; ++i) lanes.operation({4, 4});
  lanes.shares.post(key_of(1, 1), kChunk);
  lanes.shares.done(key_of(1, 1), kChunk, lanes.now, lanes.now + 0.3);
  lanes.shares.settle(lanes.now + 0.3);
  EXPECT_GT(lanes.shares.rate(1), 0.6e9);
}

// The receiver's clock is far ahead, and acknowledgements take from 1 to 30 ms.
TEST(LaneShares, ArrivalsAreThoseOfTheReceiversClock) {
  LaneShares shares(kChunk);
  const double ahead = 5000;
  shares.arrival(stamp_of(1 + ahead), 1.001);
  EXPECT_NEAR(shares.arrival(stamp_of(1.1 + ahead), 1.130), 1.101, 3e-4);
  EXPECT_NEAR(shares.arrival(stamp_of(1.2 + ahead), 1.201), 1.201, 3e-4);
  EXPECT_NEAR(shares.arrival(stamp_of(1.3 + ahead), 1.302), 1.301, 3e-4);
}

TEST(LaneShares, StampsMayRunOver) {
  LaneShares shares(kChunk);
  const double over = 4294.967296;
  shares.arrival(stamp_of(over - 0.1), 1.001);
  EXPECT_NEAR(shares.arrival(stamp_of(over + 0.1), 1.230), 1.201, 3e-4);
}

TEST(LaneShares, AnIncarnationThatIsOverCountsNothing) {
  LaneShares shares(kChunk);
  shares.lane_up(key_of(0, 1), 0);
  shares.post(key_of(0, 1), kChunk);
  shares.lane_lost(0);
  EXPECT_FALSE(shares.done(key_of(0, 1), kChunk, 0.1, 0.2));
  shares.lane_up(key_of(0, 2), 0.3);
  EXPECT_FALSE(shares.drop(key_of(0, 1), kChunk));
  shares.trial_done(key_of(0, 1), 0.4, 0.4);
  EXPECT_TRUE(shares.is_idle(0));
  EXPECT_EQ(shares.rate(0), 0);
}

}  // namespace
}  // namespace tutti
