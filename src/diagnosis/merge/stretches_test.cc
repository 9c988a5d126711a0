#include "diagnosis/merge/stretches.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::diagnosis {
namespace {

constexpr double kStep = 0.1;  // seconds

/// A rank of a job that reduces four times a step. In the first of these it waits for so many seconds. Its clock is
/// `clock` ahead; operations before `first` are forgotten.
RankHistory history(int rank, double wait, double clock, std::uint32_t first = 0, std::uint32_t count = 128) {
  RankHistory history;
  history.rank = rank;
  for (std::uint32_t number = first; number < first + count; ++number) {
    const double done = clock + 100 + kStep * (number / 4) + 0.02 * (number % 4);
    const double stay = 0.001 + (number % 4 == 0 ? wait : 0);
    history.operations.push_back({number, number % 4, true, done - stay, done});
  }
  return history;
}

CommunicatorFacts known_by_host(const std::vector<RankHistory>& ranks) {
  CommunicatorFacts communicator;
  communicator.size = 4;
  communicator.rhythm = learn_rhythm(ranks.front().operations);
  learn_stretches(ranks, communicator);
  return communicator;
}

double share_of(const std::vector<WaitFacts>& waits, int rank) {
  const auto found =
      std::find_if(waits.begin(), waits.end(), [&](const WaitFacts& each) { return each.waiter == rank; });
  return found == waits.end() ? 0 : found->share;
}

TEST(Stretches, say_across_hosts_who_waits_for_whom) {
  const CommunicatorFacts left = known_by_host({history(0, 0.03, 0), history(1, 0.03, 0)});
  const CommunicatorFacts right = known_by_host({history(2, 0, 5000), history(3, 0.03, 5000)});
  EXPECT_EQ(left.stretch_length, 8);
  EXPECT_LE(left.stretches.size(), 32U);
  const CommunicatorFacts* const hosts[] = {&left, &right};
  const auto waits = waits_across(hosts);
  ASSERT_EQ(waits.size(), 3U);
  for (const WaitFacts& wait : waits) {
    EXPECT_EQ(wait.awaited, 2);
    EXPECT_NEAR(wait.share, 0.3, 0.01);
  }
  EXPECT_EQ(share_of(waits, 2), 0);
}

TEST(Stretches, are_compared_with_the_same_ones_of_hosts_that_looked_later) {
  // Ranks turn slow while hosts look one after another: a host has told of eight operations that others have not.
  RankHistory early = history(0, 0.03, 0, 0, 120), late = history(1, 0.03, 9, 8, 120);
  for (PastOperation& each : late.operations)
    if (each.number >= 120) each.entered -= 1;
  const CommunicatorFacts left = known_by_host({early}), right = known_by_host({late});
  const CommunicatorFacts* const hosts[] = {&left, &right};
  EXPECT_TRUE(waits_across(hosts).empty());
}

TEST(Stretches, do_not_count_a_pause_now_and_then) {
  RankHistory pausing = history(0, 0, 0), waiting = history(1, 0, 0);
  for (PastOperation& each : waiting.operations)
    if (each.number == 64) each.entered -= 0.09;
  const CommunicatorFacts left = known_by_host({pausing}), right = known_by_host({waiting});
  const CommunicatorFacts* const hosts[] = {&left, &right};
  const auto waits = waits_across(hosts);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].share, 0);
  EXPECT_NEAR(waits[0].seconds, 0.09, 1e-3);
}

TEST(Stretches, are_not_told_where_operations_are_missing) {
  RankHistory gap = history(0, 0.03, 0);
  gap.operations.erase(gap.operations.begin() + 50);
  EXPECT_EQ(known_by_host({gap}).stretch_length, 0);
  const CommunicatorFacts left = known_by_host({gap}), right = known_by_host({history(1, 0.03, 0)});
  const CommunicatorFacts* const hosts[] = {&left, &right};
  EXPECT_TRUE(waits_across(hosts).empty());
}

TEST(Stretches, are_told_once_of_a_rank_that_two_processes_claim) {
  const CommunicatorFacts facts = known_by_host({history(1, 0, 0), history(0, 0.03, 0), history(0, 0, 0)});
  ASSERT_EQ(facts.stays.size(), 2U);
  EXPECT_EQ(facts.stays[0].rank, 0);
  EXPECT_EQ(facts.stays[1].rank, 1);
}

TEST(Stretches, of_hosts_that_do_not_overlap_say_nothing) {
  const CommunicatorFacts left = known_by_host({history(0, 0.03, 0, 0, 64)});
  const CommunicatorFacts right = known_by_host({history(1, 0, 0, 64, 64)});
  const CommunicatorFacts* const hosts[] = {&left, &right};
  EXPECT_TRUE(waits_across(hosts).empty());
}

}  // namespace
}  // namespace tutti::diagnosis
