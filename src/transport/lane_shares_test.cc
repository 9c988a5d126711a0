#include "transport/lane_shares.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kChunk = 128 << 10;
constexpr double kFast = 50e6;  // bytes per second

/// Lanes that do chunks one after the other at a rate of their own; each arrives `delay` seconds later.
class Lanes {
 public:
  explicit Lanes(std::size_t count, double delay = 0)
      : shares(kChunk), loads(count), delay_(delay), rates_(count, kFast) {
    for (std::uint32_t lane = 0; lane < count; ++lane) shares.lane_up(loads[lane], lane, 0);
  }

  void set_rate(std::size_t lane, double rate) { rates_[lane] = rate; }

  /// Posts so many chunks to a lane at once; the time at which the last is acknowledged.
  double burst(std::size_t lane, int chunks) {
    double at = now;
    for (int chunk = 0; chunk < chunks; ++chunk) shares.post(loads[lane], kChunk);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      at += kChunk / rates_[lane];
      shares.done(loads[lane], kChunk, now, at + delay_);
      shares.settle(at + delay_);
    }
    return at + delay_;
  }

  /// An operation with so many chunks on each lane, and a pause after it.
  void operation(std::initializer_list<int> chunks, double pause = 0.002) {
    double end = now;
    std::size_t lane = 0;
    for (const int count : chunks) end = std::max(end, burst(lane++, count));
    now = end + pause;
  }

  double trial(std::size_t lane) {
    EXPECT_TRUE(shares.wants_trial(loads[lane], now));
    shares.trial_posted(loads[lane], now);
    now += static_cast<double>(shares.trial_bytes()) / rates_[lane] + delay_;
    shares.trial_done(loads[lane], now, now);
    return loads[lane].rate();
  }

  LaneShares shares;
  std::vector<LaneLoad> loads;
  double now = 1;

 private:
  double delay_;
  std::vector<double> rates_;
};

TEST(LaneShares, LanesOfWhichNothingIsKnownAreEqual) {
  Lanes lanes(2);
  EXPECT_EQ(lanes.loads[0].rate(), 0);
  EXPECT_FALSE(lanes.loads[0].is_slow() || lanes.loads[1].is_slow());
  EXPECT_EQ(lanes.loads[0].end(100), lanes.loads[1].end(100));
}

TEST(LaneShares, ALaneMayHaveEightChunksOutstanding) {
  Lanes lanes(2);
  for (int chunk = 0; chunk < 8; ++chunk) {
    EXPECT_TRUE(lanes.shares.has_room(lanes.loads[0]));
    lanes.shares.post(lanes.loads[0], kChunk);
  }
  EXPECT_FALSE(lanes.shares.has_room(lanes.loads[0]));
  EXPECT_TRUE(lanes.shares.has_room(lanes.loads[1]));
}

// Each operation gives a lane one chunk, so that none is done right after another.
TEST(LaneShares, SingleChunksWithPausesTellTheRate) {
  Lanes lanes(2);
  lanes.set_rate(1, kFast / 4);
  for (int i = 0; i < 50; ++i) lanes.operation({1, 1});
  EXPECT_NEAR(lanes.loads[0].rate(), kFast, 0.01 * kFast);
  EXPECT_NEAR(lanes.loads[1].rate(), kFast / 4, 0.01 * kFast);
}

TEST(LaneShares, TheDelayOfTheWayIsNotTheLanesFault) {
  Lanes lanes(2, 0.005);
  lanes.set_rate(1, kFast / 4);
  for (int i = 0; i < 50; ++i) lanes.operation({4, 1});
  EXPECT_NEAR(lanes.loads[0].rate(), kFast, 0.1 * kFast);
  EXPECT_NEAR(lanes.loads[1].rate(), kFast / 4, 0.1 * kFast / 4);
}

TEST(LaneShares, OfEqualLanesTheOneWithLessToDoIsNotTakenForSlow) {
  Lanes lanes(2, 0.005);
  for (int i = 0; i < 100; ++i) lanes.operation({3, 1});
  EXPECT_FALSE(lanes.loads[1].is_slow()) << lanes.loads[1].rate();
}

TEST(LaneShares, PausesChangeNothing) {
  Lanes lanes(2);
  lanes.set_rate(1, kFast / 4);
  for (int i = 0; i < 20; ++i) lanes.operation({2, 2});
  const double before = lanes.loads[1].rate();
  lanes.now += 100;
  EXPECT_EQ(lanes.loads[1].rate(), before);
  lanes.set_rate(1, kFast);
  lanes.operation({2, 2});
  lanes.set_rate(1, kFast / 4);
  lanes.operation({2, 2});
  EXPECT_TRUE(lanes.loads[1].is_slow());
}

TEST(LaneShares, ALaneCutTo15PercentIsSlowWithinASecond) {
  Lanes lanes(2);
  for (int i = 0; i < 100; ++i) lanes.operation({2, 2});
  EXPECT_FALSE(lanes.loads[1].is_slow());
  lanes.set_rate(1, 0.15 * kFast);
  const double cut = lanes.now;
  while (lanes.now < cut + 1 && lanes.loads[1].rate() > 0.2 * kFast) lanes.operation({2, 1});
  EXPECT_LT(lanes.now - cut, 0.5);
}

TEST(LaneShares, ASlowLaneThatGetsNothingIsTried) {
  Lanes lanes(2);
  lanes.set_rate(1, 0.15 * kFast);
  for (int i = 0; i < 20; ++i) lanes.operation({4, 1});
  EXPECT_TRUE(lanes.loads[1].is_slow());
  EXPECT_FALSE(lanes.shares.may_want_trials(lanes.now));
  EXPECT_FALSE(lanes.shares.wants_trial(lanes.loads[1], lanes.now));
  lanes.operation({4, 0}, 0.2);
  EXPECT_TRUE(lanes.shares.may_want_trials(lanes.now));
  EXPECT_FALSE(lanes.shares.wants_trial(lanes.loads[0], lanes.now));
  lanes.trial(1);
  EXPECT_TRUE(lanes.loads[1].is_idle());
  EXPECT_TRUE(lanes.loads[1].is_slow());
  EXPECT_FALSE(lanes.shares.wants_trial(lanes.loads[1], lanes.now));
}

TEST(LaneShares, FourTrialsAreEnoughToReturn) {
  Lanes lanes(2);
  lanes.set_rate(1, 0.15 * kFast);
  for (int i = 0; i < 20; ++i) lanes.operation({4, 1});
  lanes.set_rate(1, kFast);
  int trials = 0;
  while (lanes.loads[1].is_slow() && trials < 10) {
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
  const double rate = lanes.loads[1].rate();
  EXPECT_NEAR(rate, 0.15 * kFast, 0.01 * kFast);
  lanes.set_rate(1, kFast);
  for (int operation = 0; operation < 40; ++operation) lanes.operation({7, 1});
  EXPECT_EQ(lanes.loads[1].rate(), rate);
  EXPECT_TRUE(lanes.shares.wants_trial(lanes.loads[1], lanes.now)) << "what shows nothing puts off no trial";
}

TEST(LaneShares, ATrialIsOutstandingAndOneIsEnough) {
  Lanes lanes(2);
  lanes.set_rate(1, 0.15 * kFast);
  for (int i = 0; i < 20; ++i) lanes.operation({4, 1});
  lanes.operation({4, 0}, 0.2);
  lanes.shares.trial_posted(lanes.loads[1], lanes.now);
  EXPECT_FALSE(lanes.loads[1].is_idle());
  EXPECT_FALSE(lanes.shares.wants_trial(lanes.loads[1], lanes.now + 1));
  EXPECT_TRUE(lanes.shares.wants_trial(lanes.loads[1], lanes.now + 10)) << "its answer was lost";
  lanes.shares.trial_posted(lanes.loads[1], lanes.now + 10);
  lanes.shares.trial_done(lanes.loads[1], lanes.now + 10.1, lanes.now + 10.1);
  lanes.shares.trial_done(lanes.loads[1], lanes.now + 10.2, lanes.now + 10.2);
  EXPECT_TRUE(lanes.loads[1].is_idle());
}

// The fast lane may have so much outstanding that the slow one's next chunk ends no later.
TEST(LaneShares, ASlowLaneGetsChunksOfLongOperations) {
  Lanes lanes(2);
  lanes.set_rate(1, 0.15 * kFast);
  for (int i = 0; i < 20; ++i) lanes.operation({4, 1});
  int fast = 0;
  while (lanes.loads[0].end(kChunk) <= lanes.loads[1].end(kChunk) && fast < 20) {
    ASSERT_TRUE(lanes.shares.has_room(lanes.loads[0])) << fast;
    lanes.shares.post(lanes.loads[0], kChunk);
    ++fast;
  }
  EXPECT_NEAR(fast, 8, 1);
  EXPECT_TRUE(lanes.shares.has_room(lanes.loads[1]));
}

// A process that does not run for a while sees late acknowledgements.
TEST(LaneShares, AStandstillDoesNotMakeALaneSlow) {
  Lanes lanes(2);
  lanes.set_rate(0, 1e9);
  lanes.set_rate(1, 1e9);
  for (int i = 0; i < 1000; ++i) lanes.operation({4, 4});
  lanes.shares.post(lanes.loads[1], kChunk);
  lanes.shares.done(lanes.loads[1], kChunk, lanes.now, lanes.now + 0.3);
  lanes.shares.settle(lanes.now + 0.3);
  EXPECT_GT(lanes.loads[1].rate(), 0.6e9);
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

TEST(LaneShares, ALaneThatComesUpAgainStartsAnew) {
  Lanes lanes(2);
  lanes.set_rate(1, kFast / 4);
  lanes.operation({2, 2});
  lanes.shares.post(lanes.loads[1], kChunk);
  lanes.shares.lane_lost(lanes.loads[1]);
  lanes.shares.lane_up(lanes.loads[1], 1, lanes.now);
  EXPECT_TRUE(lanes.loads[1].is_idle());
  EXPECT_EQ(lanes.loads[1].rate(), 0);
}

}  // namespace
}  // namespace tutti
