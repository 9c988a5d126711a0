#include "control/world/second_opinion.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(SecondOpinion, OthersAreAskedNowAndThenAndGetTimeToAnswer) {
  SecondOpinion opinion(10);
  EXPECT_FALSE(opinion.had_time(100));
  EXPECT_TRUE(opinion.ask(100));
  EXPECT_FALSE(opinion.ask(100.9));
  EXPECT_FALSE(opinion.had_time(100.9));
  EXPECT_TRUE(opinion.ask(101));
  EXPECT_TRUE(opinion.had_time(101)) << "the time to answer counts from the first question";
}

TEST(SecondOpinion, WhoIsHeardAgainIsDoubtedAnew) {
  SecondOpinion opinion(10);
  EXPECT_TRUE(opinion.ask(100));
  opinion.heard();
  EXPECT_FALSE(opinion.had_time(105));
  EXPECT_TRUE(opinion.ask(105));
  EXPECT_FALSE(opinion.had_time(105.5));
}

TEST(SecondOpinion, AnAnswerCountsForAWhile) {
  SecondOpinion opinion(10);
  EXPECT_FALSE(opinion.is_heard_elsewhere(0));
  opinion.add_hearer(3, 100);
  EXPECT_TRUE(opinion.is_heard_elsewhere(104.9));
  EXPECT_FALSE(opinion.is_heard_elsewhere(105));
}

TEST(SecondOpinion, TheLatestHearersAreRememberedOnce) {
  SecondOpinion opinion(10);
  for (const int process : {1, 2, 3, 1, 4, 5}) opinion.add_hearer(process, 100);
  EXPECT_EQ(opinion.hearers(), (std::vector<int>{5, 4, 1, 3}));
}

TEST(SecondOpinion, OneAnswerIsEnoughForAllWhoAskTogether) {
  SecondOpinion opinion(10);
  EXPECT_TRUE(opinion.answer(100));
  EXPECT_FALSE(opinion.answer(100.2));
  EXPECT_TRUE(opinion.answer(100.25));
}

}  // namespace
}  // namespace tutti
