#include "base/backoff.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Backoff, DoublesFromTheFirstPauseToTheLongest) {
  Backoff backoff(0.01, 0.05);
  EXPECT_EQ(backoff.last(), 0);
  for (const double expected : {0.01, 0.02, 0.04, 0.05, 0.05}) {
    EXPECT_DOUBLE_EQ(backoff.next(), expected);
    EXPECT_DOUBLE_EQ(backoff.last(), expected);
  }
}

TEST(Backoff, StartsAgainAfterAReset) {
  Backoff backoff(1, 8);
  backoff.next();
  backoff.next();
  backoff.reset();
  EXPECT_EQ(backoff.last(), 0);
  EXPECT_EQ(backoff.next(), 1);
}

TEST(Backoff, FollowsALimitThatChanges) {
  Backoff backoff(1, 2);
  for (int attempt = 0; attempt < 3; ++attempt) backoff.next();
  backoff.set_longest(8);
  EXPECT_EQ(backoff.next(), 4);
  backoff.set_longest(3);
  EXPECT_EQ(backoff.next(), 3);
}

TEST(Backoff, JitterShortensEachPauseByUpToAQuarter) {
  Backoff backoff = Backoff::with_jitter(1, 8, 7);
  Backoff same = Backoff::with_jitter(1, 8, 7);
  for (const double expected : {1.0, 2.0, 4.0, 8.0, 8.0}) {
    const double pause = backoff.next();
    EXPECT_LE(pause, expected);
    EXPECT_GE(pause, 0.75 * expected);
    EXPECT_EQ(pause, same.next()) << "the seed decides";
  }
}

}  // namespace
}  // namespace tutti
