#include "diagnosis/rhythm.hpp"

#include <gtest/gtest.h>

namespace tutti::diagnosis {
namespace {

/// Steps of three large operations and a small one. `late`: seconds by which others come later than this rank, once a
/// step; it waits for them in the first operation.
RankHistory steps(int rank, int count, double late, double pause = 0) {
  RankHistory history;
  history.rank = rank;
  std::uint32_t number = 100;
  double now = 50;
  for (int step = 0; step < count; ++step) {
    now += step == count / 2 ? pause : 0;
    for (int i = 0; i < 4; ++i) {
      const double computing = i == 0 ? 0.04 : 0.01;
      const double stay = 0.005 + (i == 0 ? late : 0);
      now += computing + stay;
      history.operations.push_back({number++, i == 3 ? 2U : 1U, true, now - stay, now});
    }
  }
  return history;
}

TEST(Rhythm, finds_the_period_of_a_step) {
  const RhythmFacts rhythm = learn_rhythm(steps(0, 20, 0.0).operations);
  EXPECT_EQ(rhythm.length, 4);
  EXPECT_NEAR(rhythm.period, 0.09, 1e-6);
  EXPECT_EQ(rhythm.operations, 80U);
}

TEST(Rhythm, remembers_the_longest_pause_and_does_not_count_it_as_usual) {
  const RhythmFacts rhythm = learn_rhythm(steps(0, 20, 0.0, 30).operations);
  EXPECT_NEAR(rhythm.period, 0.09, 1e-6);
  EXPECT_GT(rhythm.longest_gap, 29);
}

TEST(Rhythm, forgets_how_the_job_warmed_up) {
  RankHistory history = steps(0, 20, 0.0);
  for (std::size_t i = 0; i < history.operations.size(); ++i) {
    history.operations[i].number = static_cast<std::uint32_t>(i + 1);
    if (i >= 3) continue;
    history.operations[i].entered -= 60;
    history.operations[i].done -= 60;
  }
  EXPECT_LT(learn_rhythm(history.operations).longest_gap, 1);
}

TEST(Rhythm, knows_none_of_calls_that_do_not_recur) {
  RankHistory history = steps(0, 5, 0.0);
  std::uint32_t signature = 0;
  for (PastOperation& each : history.operations) each.signature = signature++;
  EXPECT_EQ(learn_rhythm(history.operations).length, 0);
}

TEST(Rhythm, learns_how_long_a_call_usually_takes) {
  const auto sites = learn_sites(steps(0, 20, 0.0).operations);
  ASSERT_EQ(sites.size(), 2U);
  EXPECT_NEAR(sites[0].usual, 0.005, 1e-6);
}

TEST(Waits, are_weighed_by_time_and_not_by_the_number_of_operations) {
  // Rank 1 comes 30 ms late once a step of four operations; in the other three all come at once.
  RankHistory late = steps(1, 20, 0.0);
  const RankHistory one = steps(0, 20, 0.03), two = steps(2, 20, 0.03);
  for (std::size_t i = 0; i < late.operations.size(); ++i) {
    late.operations[i].entered += one.operations[i].done - late.operations[i].done;
    late.operations[i].done = one.operations[i].done;
  }
  const std::vector<RankHistory> ranks{one, late, two};
  const auto waits = learn_waits(ranks, learn_rhythm(one.operations));
  double share = 0;
  for (const WaitFacts& wait : waits)
    if (wait.awaited == 1 && wait.waiter == 0) share = wait.share;
  EXPECT_NEAR(share, 0.03 / 0.12, 0.01);
}

TEST(Waits, are_the_same_where_numbers_wrap) {
  const auto shifted = [](RankHistory history, std::uint32_t by) {
    for (PastOperation& each : history.operations) each.number += by;
    return history;
  };
  const std::vector<RankHistory> ranks{steps(0, 20, 0.03), steps(1, 20, 0.0)};
  const RhythmFacts rhythm = learn_rhythm(ranks[0].operations);
  const auto usual = learn_waits(ranks, rhythm);
  ASSERT_FALSE(usual.empty());
  for (const std::uint32_t by : {~std::uint32_t{0}, ~std::uint32_t{40}, std::uint32_t{1} << 31}) {
    const std::vector<RankHistory> wrapped{shifted(ranks[0], by), shifted(ranks[1], by)};
    const auto waits = learn_waits(wrapped, rhythm);
    ASSERT_EQ(waits.size(), usual.size());
    for (std::size_t i = 0; i < waits.size(); ++i) EXPECT_EQ(waits[i].seconds, usual[i].seconds);
  }
}

TEST(Waits, are_none_of_numbers_that_are_made_up) {
  RankHistory one = steps(0, 20, 0.0);
  for (std::size_t i = 0; i < one.operations.size(); ++i)
    one.operations[i].number = static_cast<std::uint32_t>(i * 50'000'000);
  const std::vector<RankHistory> ranks{one, one};
  EXPECT_TRUE(learn_waits(ranks, learn_rhythm(one.operations)).empty());
}

TEST(Waits, do_not_count_a_pause_now_and_then) {
  RankHistory waits_once = steps(0, 20, 0.0), pauses = steps(1, 20, 0.0);
  // Once, rank 1 writes a checkpoint, and rank 0 waits for it.
  waits_once.operations[40].entered -= 5;
  const std::vector<RankHistory> ranks{waits_once, pauses};
  for (const WaitFacts& wait : learn_waits(ranks, learn_rhythm(waits_once.operations))) EXPECT_LT(wait.share, 0.01);
}

}  // namespace
}  // namespace tutti::diagnosis
