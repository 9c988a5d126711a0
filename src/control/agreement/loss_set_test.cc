#include "control/agreement/loss_set.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

constexpr Loss known(int member) { return {member, Certainty::known}; }
constexpr Loss presumed(int member) { return {member, Certainty::presumed}; }

LossSet of_four(Quorum quorum, std::initializer_list<Loss> losses) {
  LossSet set(4, quorum);
  for (const Loss loss : losses) set.add(loss);
  return set;
}

const MemberSet kFirstHalf = {true, true, false, false};
const MemberSet kSecondHalf = {false, false, true, true};
const MemberSet kMajority = {true, true, true, false};
const MemberSet kLast = {false, false, false, true};

TEST(LossSet, TakesAPresumedDeathForKnownOnceItIsAndNeverBack) {
  LossSet set(2, Quorum::majority);
  EXPECT_TRUE(set.add(presumed(1)));
  EXPECT_FALSE(set.add(presumed(1)));
  EXPECT_TRUE(set.presumed()[1]);
  EXPECT_TRUE(set.add(known(1)));
  EXPECT_FALSE(set.add(presumed(1)));
  EXPECT_FALSE(set.presumed()[1]);
  EXPECT_TRUE(set.is_dead(1));
}

TEST(LossSet, LetsAnyNumberGoOnWithoutThoseKnownToBeDead) {
  EXPECT_TRUE(of_four(Quorum::majority, {known(0), known(1), known(2)}).allows(kLast));
}

TEST(LossSet, AsksForAQuorumToLeaveOutTheSilent) {
  const auto halves = {presumed(2), presumed(3)};
  EXPECT_FALSE(of_four(Quorum::majority, halves).allows(kFirstHalf));
  EXPECT_TRUE(of_four(Quorum::with_rank_0, halves).allows(kFirstHalf));
  EXPECT_FALSE(of_four(Quorum::with_rank_0, {presumed(0), presumed(1)}).allows(kSecondHalf));
  EXPECT_TRUE(of_four(Quorum::majority, {presumed(3)}).allows(kMajority));
  EXPECT_FALSE(of_four(Quorum::majority, {known(0), known(1), presumed(2)}).allows(kLast));
  EXPECT_TRUE(of_four(Quorum::none, {known(0), known(1), presumed(2)}).allows(kLast));
}

TEST(LossSet, AsksForAQuorumToLeaveOutTheLivingInAnyCase) {
  EXPECT_TRUE(of_four(Quorum::majority, {}).allows(kMajority));
  EXPECT_FALSE(of_four(Quorum::majority, {}).allows(kFirstHalf));
  EXPECT_FALSE(of_four(Quorum::none, {known(0), presumed(1)}).allows(kLast));
}

}  // namespace
}  // namespace tutti
