// RankSlots, and growing where ranks are threads; tests/integration grows communicators of processes.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "communicator/operation/rank_slots.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

TEST(RankSlots, OfTheLostAreFreeAndRanksMoveUp) {
  const RankSlots slots = RankSlots{5, {}}.after_loss(std::vector<int>{0, 2, 4});
  EXPECT_EQ(slots, (RankSlots{5, {1, 3}}));
  EXPECT_EQ(slots.taken(), 3);
  EXPECT_EQ(slots.all_taken(), (std::vector<int>{0, 2, 4}));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(slots.rank_at(2 * rank), rank);
  EXPECT_EQ(slots.after_loss(std::vector<int>{1, 2}), (RankSlots{5, {0, 1, 3}}));
}

TEST(RankSlots, AreTakenAsWishedThenTheLowestThenNewOnes) {
  RankSlots slots{5, {1, 3}};
  EXPECT_EQ(slots.take(std::vector<int>{-1, 3, 3, 0}), (std::vector<int>{1, 3, 5, 6}));
  EXPECT_EQ(slots, (RankSlots{7, {}}));
}

/// Every rank on a thread of its own; `newcomers` more join by the id that rank 0 hands out.
template <typename Body>
void grow_threads(int size, int newcomers, GrowOptions options, const Body& body) {
  auto all = Communicator::create_threads(size);
  ASSERT_TRUE(all) << all.error().to_string();
  std::promise<UniqueId> invited;
  const std::shared_future<UniqueId> id = invited.get_future().share();
  options.newcomers = newcomers;
  options.invite = [&](const UniqueId& made) { invited.set_value(made); };
  std::vector<std::thread> threads;
  for (Communicator& communicator : *all)
    threads.emplace_back([&] {
      Result<Communicator> grown = communicator.grow(options);
      ASSERT_TRUE(grown) << grown.error().to_string();
      EXPECT_EQ(grown->rank(), communicator.rank());
      body(*grown);
    });
  for (int i = 0; i < newcomers; ++i)
    threads.emplace_back([&] {
      Result<Communicator> joined = Communicator::join(id.get());
      ASSERT_TRUE(joined) << joined.error().to_string();
      EXPECT_GE(joined->rank(), size);
      body(*joined);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Grow, ThreadsTakeInThreads) {
  grow_threads(2, 2, {}, [](Communicator& grown) {
    ASSERT_EQ(grown.size(), 4);
    for (int round = 0; round < 100; ++round) {
      const int mine = grown.rank() + round;
      int sum = 0;
      const Status done = grown.all_reduce(&mine, &sum, 1, DataType::int32, Operator::sum);
      ASSERT_TRUE(done) << done.error().to_string();
      ASSERT_EQ(sum, 6 + 4 * round);
    }
    EXPECT_TRUE(grown.barrier());
  });
}

TEST(Grow, OneRankBecomesThree) {
  grow_threads(1, 2, {}, [](Communicator& grown) {
    ASSERT_EQ(grown.size(), 3);
    EXPECT_TRUE(grown.barrier());
  });
}

TEST(Grow, AbortOfANewcomerReachesAll) {
  grow_threads(2, 1, {}, [](Communicator& grown) {
    ASSERT_TRUE(grown.barrier());  // all have come out of grow
    if (grown.rank() == 2) {
      char word = 0;  // all have come out of the barrier
      for (const int rank : {0, 1}) ASSERT_TRUE(grown.recv(&word, 1, DataType::uint8, rank));
      grown.abort("had enough");
    } else {
      ASSERT_TRUE(grown.send(&grown, 1, DataType::uint8, 2));
    }
    const Status done = grown.barrier();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::aborted) << done.error().to_string();
    EXPECT_NE(done.error().message.find("rank 2 aborted: had enough"), std::string::npos) << done.error().message;
  });
}

TEST(Grow, OptionsThatCannotBeAreToldToAllRanks) {
  auto all = Communicator::create_threads(2).value();
  std::vector<std::thread> threads;
  for (Communicator& communicator : all)
    threads.emplace_back([&] {
      GrowOptions options;
      options.newcomers = communicator.rank() == 0 ? 0 : 1;
      const Result<Communicator> grown = communicator.grow(options);
      ASSERT_FALSE(grown);
      EXPECT_EQ(grown.error().code, ErrorCode::invalid_argument) << grown.error().to_string();
      EXPECT_TRUE(communicator.barrier());
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Grow, ABrokenCommunicatorMustShrinkFirst) {
  auto all = Communicator::create_threads(1).value();
  all[0].abort("had enough");
  GrowOptions options;
  options.invite = [](const UniqueId&) { FAIL() << "nobody is to be invited"; };
  const Result<Communicator> grown = all[0].grow(options);
  ASSERT_FALSE(grown);
  EXPECT_EQ(grown.error().code, ErrorCode::aborted) << grown.error().to_string();
}

}  // namespace
}  // namespace tutti
