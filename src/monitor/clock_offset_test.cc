#include "monitor/clock_offset.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tutti::monitor {
namespace {

constexpr std::int64_t kMicrosecond = 1000;
constexpr std::int64_t kSecond = 1'000'000'000;

/// Two hosts whose clocks go apart, and the network between them.
struct Hosts {
  std::int64_t ahead = 0;  // theirs, at our 0
  double drift = 0;        // per unit of time

  std::int64_t theirs(std::int64_t ours) const {
    return ours + ahead + std::llround(static_cast<double>(ours) * drift);
  }
  ClockSample exchange(std::int64_t at, std::int64_t there, std::int64_t thinking, std::int64_t back) const {
    return {at, theirs(at + there), theirs(at + there + thinking), at + there + thinking + back};
  }
  std::int64_t truth(std::int64_t ours) const { return theirs(ours) - ours; }
};

std::uint64_t distance(std::int64_t a, std::int64_t b) { return static_cast<std::uint64_t>(std::abs(a - b)); }

TEST(ClockOffset, IsNotKnownBeforeAnExchange) { EXPECT_FALSE(ClockOffset().known()); }

TEST(ClockOffset, IsExactWhereBothWaysTakeAsLong) {
  const Hosts hosts{1000 * kSecond};
  ClockOffset offset;
  offset.take(hosts.exchange(5 * kSecond, 40 * kMicrosecond, 7 * kMicrosecond, 40 * kMicrosecond));
  EXPECT_EQ(offset.offset(), 1000 * kSecond);
  EXPECT_LE(offset.error_at(5 * kSecond), 45U * kMicrosecond);
}

TEST(ClockOffset, IsNegativeWhereTheOtherIsBehind) {
  const Hosts hosts{-3 * kSecond};
  ClockOffset offset;
  offset.take(hosts.exchange(10 * kSecond, kMicrosecond, 0, kMicrosecond));
  EXPECT_EQ(offset.offset(), -3 * kSecond);
}

TEST(ClockOffset, ErrorCoversWaysThatDiffer) {
  const Hosts hosts{77 * kSecond};
  for (const auto& [there, back] : {std::pair{900, 1}, std::pair{1, 900}, std::pair{0, 500}}) {
    ClockOffset offset;
    offset.take(hosts.exchange(kSecond, there * kMicrosecond, 0, back * kMicrosecond));
    EXPECT_GT(distance(offset.offset(), hosts.truth(0)), 100U * kMicrosecond);
    EXPECT_LE(distance(offset.offset(), hosts.truth(0)), offset.error_at(kSecond)) << there << " us there";
  }
}

TEST(ClockOffset, BelievesTheQuickestExchange) {
  const Hosts hosts{kSecond};
  ClockOffset offset;
  offset.take(hosts.exchange(0, 500 * kMicrosecond, 0, 10 * kMicrosecond));
  offset.take(hosts.exchange(kSecond / 1000, 8 * kMicrosecond, 0, 10 * kMicrosecond));
  offset.take(hosts.exchange(kSecond / 500, 10 * kMicrosecond, 0, 900 * kMicrosecond));
  EXPECT_LE(distance(offset.offset(), kSecond), 1U * kMicrosecond);
}

TEST(ClockOffset, ErrorGrowsWithTheAgeOfWhatIsBelieved) {
  ClockOffset offset;
  offset.take(Hosts{}.exchange(0, kMicrosecond, 0, kMicrosecond));
  EXPECT_LT(offset.error_at(0), offset.error_at(10 * kSecond));
  EXPECT_NEAR(static_cast<double>(offset.error_at(10 * kSecond)), 10e9 * ClockOffset::kDrift, 5e3);
}

TEST(ClockOffset, DropsExchangesThatContradictThemselves) {
  ClockOffset offset;
  offset.take({100, 200, 150, 300});  // told before it was heard
  offset.take({100, 200, 900, 300});  // thought for longer than the round trip
  offset.take({300, 200, 210, 100});  // came back before it was sent
  EXPECT_FALSE(offset.known());
}

TEST(ClockOffset, FollowsClocksThatDriftWithinTheErrorItTells) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<std::int64_t> way(5 * kMicrosecond, 400 * kMicrosecond);
    const Hosts hosts{123 * kSecond, (seed % 2 == 0 ? 1 : -1) * 40e-6};
    ClockOffset offset;
    for (std::int64_t at = 0; at < 600 * kSecond; at += 10 * kSecond) {
      if (offset.known()) {
        ASSERT_LE(distance(offset.offset(), hosts.truth(at)), offset.error_at(at)) << "seed " << seed << " at " << at;
        ASSERT_LE(offset.error_at(at), 1500U * kMicrosecond) << "seed " << seed;
      }
      offset.take(hosts.exchange(at, way(random), kMicrosecond, way(random)));
    }
  }
}

}  // namespace
}  // namespace tutti::monitor
