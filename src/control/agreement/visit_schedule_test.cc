#include "control/agreement/visit_schedule.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

constexpr double kGrace = 1.0;

TEST(VisitSchedule, ComesAfterItsPauseButAGraceBeforeTheWaitEnds) {
  VisitSchedule visits(kGrace, true);
  EXPECT_FALSE(visits.is_due(100)) << "nothing is planned";
  visits.begin(0, 2, 10);
  EXPECT_EQ(visits.next_tick(), 2);
  visits.slow_down();
  visits.plan(2, 10);
  EXPECT_EQ(visits.next_tick(), 6);
  visits.plan(6, 10);
  EXPECT_EQ(visits.next_tick(), 9);
  visits.stop();
  EXPECT_FALSE(visits.is_due(100));
}

TEST(VisitSchedule, IsHastened) {
  VisitSchedule visits(kGrace, true);
  visits.begin(0, 2, 10);
  visits.hasten(1);
  EXPECT_TRUE(visits.is_due(1.25));
  visits.hasten(5);
  EXPECT_TRUE(visits.is_due(1.25)) << "never put off";
}

TEST(VisitSchedule, NeverVisitsWhoeverIsRightBelowTheLeader) {
  VisitSchedule visits(kGrace, false);
  visits.begin(0, 2, 10);
  visits.hasten(1);
  EXPECT_FALSE(visits.is_due(100));
}

TEST(VisitSchedule, AsksManyInTurns) {
  VisitSchedule visits(kGrace, true);
  const MemberSet missing{false, true, true, false, true, true, true};
  EXPECT_EQ(visits.choose(missing, 5), missing);
  EXPECT_EQ(listed(visits.choose(missing, 2)), (std::vector<int>{1, 2}));
  EXPECT_EQ(listed(visits.choose(missing, 2)), (std::vector<int>{4, 5}));
  EXPECT_EQ(listed(visits.choose(missing, 2)), (std::vector<int>{1, 6}));
}

}  // namespace
}  // namespace tutti
