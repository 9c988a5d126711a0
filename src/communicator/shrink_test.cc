// Which ranks shrink() leaves out, and when it may be called again.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "control/agreement/agreement.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Shrink, RanksThatTheCallerKnowsToBeDeadAreLeftOutAtOnce) {
  std::vector<Communicator> all = Communicator::create_threads(4).value();
  const auto began = Clock::now();
  std::vector<std::thread> threads;
  for (const int rank : {0, 1})  // no majority, and the other two live
    threads.emplace_back([&all, rank] {
      ShrinkOptions options;
      options.dead = {2, 3};
      const auto next = all[static_cast<std::size_t>(rank)].shrink(options);
      ASSERT_TRUE(next) << next.error().to_string();
      EXPECT_EQ(next->size(), 2);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(5));
}

TEST(Shrink, ARankThatIsNotAnotherOneCannotBeNamedDead) {
  std::vector<Communicator> all = Communicator::create_threads(2).value();
  for (const int rank : {-1, 0, 2}) {
    ShrinkOptions options;
    options.dead = {rank};
    EXPECT_EQ(all[0].shrink(options).error().code, ErrorCode::invalid_argument) << rank;
  }
  EXPECT_TRUE(all[0].status()) << "it was not touched";
}

TEST(Shrink, MayBeCalledAgainWithOtherOptions) {
  std::vector<Communicator> all = Communicator::create_threads(3).value();
  ShrinkOptions options;
  options.seconds = 0.1;
  const auto first = all[2].shrink(options);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::timed_out);
  options.dead = {0, 1};
  const auto second = all[2].shrink(options);
  ASSERT_TRUE(second) << second.error().to_string();
  EXPECT_EQ(second->size(), 1);
}

/// Calls shrink() on all ranks at once, and expects all to be in what it gives.
void expect_all_shrink(std::vector<Communicator>& all) {
  std::vector<std::thread> threads;
  for (Communicator& each : all)
    threads.emplace_back([&] {
      const auto next = each.shrink(20);
      ASSERT_TRUE(next) << next.error().to_string();
      EXPECT_EQ(next->size(), each.size());
    });
  for (auto& thread : threads) thread.join();
}

TEST(Shrink, RanksThatCalledItADifferentNumberOfTimesMeet) {
  for (const std::size_t hasty : {0U, 2U}) {  // the one that leads, and one that follows
    std::vector<Communicator> all = Communicator::create_threads(3).value();
    EXPECT_EQ(all[hasty].shrink(0.05).error().code, ErrorCode::timed_out) << "the others have not called";
    expect_all_shrink(all);
  }
}

// The others call it for the first time between the two calls of the hasty one.
TEST(Shrink, ARankThatGaveUpIsWaitedForWhenItCallsAgain) {
  std::vector<Communicator> all = Communicator::create_threads(3).value();
  EXPECT_EQ(all[0].shrink(0.05).error().code, ErrorCode::timed_out);
  std::vector<std::thread> threads;
  for (Communicator& each : all)
    threads.emplace_back([&] {
      if (each.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
      const auto next = each.shrink(20);
      ASSERT_TRUE(next) << next.error().to_string();
      EXPECT_EQ(next->size(), 3);
    });
  for (auto& thread : threads) thread.join();
}

TEST(Shrink, MayBeCalledAgainOnTheSameCommunicatorAfterItSucceeded) {
  std::vector<Communicator> all = Communicator::create_threads(3).value();
  expect_all_shrink(all);
  expect_all_shrink(all);
}

/// Messages of agreements travel by trees, as they do among thousands of ranks.
class ShrinkByTrees : public testing::Test {
 protected:
  void SetUp() override { g_agreement_trees.above = 16; }
  void TearDown() override { g_agreement_trees = {}; }
};

TEST_F(ShrinkByTrees, LeavesOutTheDeadAndTheirLeader) {
  std::vector<Communicator> all = Communicator::create_threads(80).value();
  const std::vector<int> dead = {0, 1, 9, 40};
  std::vector<std::thread> threads;
  for (Communicator& each : all) {
    if (std::find(dead.begin(), dead.end(), each.rank()) != dead.end()) continue;
    threads.emplace_back([&] {
      ShrinkOptions options;
      options.seconds = 20;
      options.dead = dead;
      const auto next = each.shrink(options);
      ASSERT_TRUE(next) << next.error().to_string();
      EXPECT_EQ(next->size(), 76);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(ShrinkByTrees, MeetsThoseThatCalledItADifferentNumberOfTimes) {
  std::vector<Communicator> all = Communicator::create_threads(80).value();
  EXPECT_EQ(all[5].shrink(0.05).error().code, ErrorCode::timed_out) << "the others have not called";
  expect_all_shrink(all);
}

}  // namespace
}  // namespace tutti
