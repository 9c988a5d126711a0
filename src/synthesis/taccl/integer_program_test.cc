#include "synthesis/taccl/integer_program.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace tutti {
namespace {

constexpr double kSeconds = 20;

/// Things worth 5, 4 and 3, of weight 4, 3 and 2, of which at most 5 can be carried.
IntegerProgram knapsack() {
  IntegerProgram program;
  program.add_binary(-5);
  program.add_binary(-4);
  program.add_binary(-3);
  program.at_least({{0, -4}, {1, -3}, {2, -2}}, -5);
  return program;
}

TEST(IntegerProgram, FindsTheBestAndSaysSo) {
  const auto solution = knapsack().solve(kSeconds);
  ASSERT_TRUE(solution) << solution.error().message;
  EXPECT_EQ(solution->values, (std::vector<double>{0, 1, 1}));
  EXPECT_NEAR(solution->objective, -7, 1e-9);
  EXPECT_TRUE(solution->optimal);
}

TEST(IntegerProgram, ReturnsItsStartWhereNothingIsBetter) {
  IntegerProgram program = knapsack();
  program.set_start({0, 1, 1});
  EXPECT_EQ(program.solve(kSeconds)->values, (std::vector<double>{0, 1, 1}));
}

TEST(IntegerProgram, SaysWhereThereIsNoSolution) {
  IntegerProgram program;
  const int one = program.add_binary(1), other = program.add_binary(1);
  program.equal({{one, 2}, {other, 2}}, 3);
  const auto solution = program.solve(kSeconds);
  ASSERT_FALSE(solution);
  EXPECT_EQ(solution.error().code, ErrorCode::invalid_argument);
}

TEST(IntegerProgram, KeepsRowsThatSayTheSameOnce) {
  IntegerProgram program = knapsack();
  program.at_least({{2, -2}, {0, -3}, {1, -3}, {0, -1}}, -5);
  EXPECT_EQ(program.rows(), 1);
  EXPECT_EQ(program.binaries(), 3);
}

TEST(IntegerProgram, MeasuresByHowMuchValuesMiss) {
  const IntegerProgram program = knapsack();
  EXPECT_EQ(program.violation({0, 1, 1}), 0);
  EXPECT_EQ(program.violation({1, 1, 0}), 2);
  EXPECT_EQ(program.violation({0, 0.25, 0}), 0.25);
}

TEST(IntegerProgram, LeavesInterruptsAsTheyWere) {
  struct sigaction mine {
  }, after{};
  mine.sa_handler = SIG_IGN;
  struct sigaction before {};
  sigaction(SIGINT, &mine, &before);
  EXPECT_TRUE(knapsack().solve(kSeconds));
  sigaction(SIGINT, &before, &after);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

}  // namespace
}  // namespace tutti
