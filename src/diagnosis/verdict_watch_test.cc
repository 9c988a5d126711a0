#include "diagnosis/verdict_watch.hpp"

#include <gtest/gtest.h>

namespace tutti::diagnosis {
namespace {

Telemetry at(double now) {
  Telemetry telemetry;
  telemetry.now = now;
  telemetry.job = 1;
  return telemetry;
}

Verdict verdict(FaultClass fault, int rank) {
  Verdict value;
  value.fault = fault;
  value.suspects.emplace_back();
  value.suspects[0].rank = rank;
  value.suspects[0].host = "node";
  return value;
}

TEST(VerdictWatch, tells_what_is_new_and_what_is_over_once_each) {
  VerdictWatch watch;
  auto changes = watch.update(at(1), {verdict(FaultClass::crashed, 3)});
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_TRUE(changes[0].began);
  EXPECT_TRUE(watch.update(at(2), {verdict(FaultClass::crashed, 3)}).empty());
  changes = watch.update(at(4), {verdict(FaultClass::crashed, 2)});
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_TRUE(changes[0].began);
  EXPECT_FALSE(changes[1].began);
  EXPECT_EQ(changes[1].lasted, 3);
  EXPECT_EQ(changes[1].verdict.suspects[0].rank, 3);
}

TEST(VerdictWatch, waits_to_see_slowness_twice_and_to_miss_it_three_times) {
  VerdictWatch watch;
  EXPECT_TRUE(watch.update(at(1), {verdict(FaultClass::slow_link, 3)}).empty());
  EXPECT_TRUE(watch.update(at(2), {}).empty()) << "it was noise";
  EXPECT_TRUE(watch.update(at(3), {verdict(FaultClass::slow_link, 3)}).empty());
  EXPECT_EQ(watch.update(at(4), {verdict(FaultClass::slow_link, 3)}).size(), 1U);
  EXPECT_TRUE(watch.update(at(5), {}).empty());
  EXPECT_TRUE(watch.update(at(6), {}).empty());
  EXPECT_EQ(watch.update(at(7), {}).size(), 1U);
}

TEST(VerdictWatch, waits_for_a_while_however_often_it_looks) {
  VerdictWatch watch;
  int told_at = 0, over_at = 0;  // looks, ten a second
  for (int look = 1; look <= 40; ++look) {
    std::vector<Verdict> verdicts;
    if (look <= 20) verdicts.push_back(verdict(FaultClass::slow_link, 3));
    for (const VerdictChange& change : watch.update(at(10 + 0.1 * look), verdicts))
      (change.began ? told_at : over_at) = look;
  }
  EXPECT_NEAR(told_at, 6, 1);
  EXPECT_NEAR(over_at, 30, 1);
}

TEST(VerdictWatch, remembers_what_is_over) {
  VerdictWatch watch;
  watch.update(at(1), {verdict(FaultClass::crashed, 3)});
  EXPECT_TRUE(watch.past().empty());
  watch.update(at(2), {});
  ASSERT_EQ(watch.past().size(), 1U);
  EXPECT_EQ(watch.past()[0].host, "node");
}

}  // namespace
}  // namespace tutti::diagnosis
