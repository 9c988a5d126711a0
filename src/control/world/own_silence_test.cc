#include "control/world/own_silence.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(OwnSilence, ShortDelaysOfHeartbeatsMeanNothing) {
  OwnSilence silence(10);
  EXPECT_FALSE(silence.may_be_presumed_dead(1000)) << "before the first heartbeat";
  for (double now = 1000; now < 1020; now += 2) {
    silence.beat(now);
    EXPECT_FALSE(silence.may_be_presumed_dead(now + 1.9));
  }
}

TEST(OwnSilence, ALongOneIsSeenBeforeTheNextHeartbeat) {
  OwnSilence silence(10);
  silence.beat(1000);
  EXPECT_FALSE(silence.may_be_presumed_dead(1007));
  EXPECT_TRUE(silence.may_be_presumed_dead(1008));
}

TEST(OwnSilence, WhatTheOthersConcludedMayStillArriveLater) {
  OwnSilence silence(10);
  silence.beat(1000);
  silence.beat(1020);
  silence.beat(1021);
  EXPECT_TRUE(silence.may_be_presumed_dead(1022));
  for (double now = 1022; now <= 1030; ++now) silence.beat(now);
  EXPECT_FALSE(silence.may_be_presumed_dead(1030.5));
}

}  // namespace
}  // namespace tutti
