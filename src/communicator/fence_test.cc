// A call that failed and returned has given its caller's memory back: ranks of the same process that were in the middle
// of a step have left it. tests/integration/mapped_memory_test.cc has the same for ranks of other processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "tutti/communicator.hpp"
#include "tutti/unique_id.hpp"

namespace tutti {
namespace {

/// Adds; a rank that holds stays in its first call until it is let go.
struct Adder {
  bool holds = false;
  std::atomic<bool> entered{false};
  std::atomic<bool> let_go{false};

  static void add(const void* left, const void* right, void* result, std::size_t count, DataType, void* context) {
    auto& self = *static_cast<Adder*>(context);
    if (self.holds) {
      self.entered = true;
      self.entered.notify_all();
      self.let_go.wait(false);
    }
    const auto* const a = static_cast<const float*>(left);
    const auto* const b = static_cast<const float*>(right);
    std::transform(a, a + count, b, static_cast<float*>(result), [](float x, float y) { return x + y; });
  }
};

/// Rank 0 gives up while rank 1 is in an operator that takes `held` seconds more and writes into rank 0's memory then.
void expect_waits_for_operator(std::vector<Communicator>& ranks, double held) {
  constexpr std::size_t kCount = 1 << 18;
  std::vector<float> inputs[2] = {std::vector<float>(kCount, 1), std::vector<float>(kCount, 2)};
  std::vector<float> outputs[2] = {std::vector<float>(kCount), std::vector<float>(kCount)};
  Adder adders[2];
  adders[1].holds = true;
  const auto reduce = [&](std::size_t rank) {
    return ranks[rank].all_reduce(inputs[rank].data(), outputs[rank].data(), kCount, DataType::float32,
                                  Reduction::user(Adder::add, &adders[rank]));
  };
  std::thread first([&] {
    EXPECT_FALSE(reduce(0));
    EXPECT_TRUE(adders[1].let_go) << "the call returned while rank 1 was still in the middle of a step";
    std::fill(outputs[0].begin(), outputs[0].end(), 17.0F);
  });
  std::thread second([&] { EXPECT_FALSE(reduce(1)); });
  adders[1].entered.wait(false);
  ranks[0].abort("had enough");
  std::this_thread::sleep_for(std::chrono::duration<double>(held));
  adders[1].let_go = true;
  adders[1].let_go.notify_all();
  first.join();
  second.join();
  EXPECT_EQ(std::count(outputs[0].begin(), outputs[0].end(), 17.0F), static_cast<std::ptrdiff_t>(kCount))
      << "rank 1 wrote into memory that was rank 0's again";
}

TEST(Fence, WaitsForOperatorsHoweverLongTheyTake) {
  auto ranks = Communicator::create_threads(2).value();
  expect_waits_for_operator(ranks, 5.5);
}

TEST(Fence, WaitsForRanksOfTheProcessThatJoinedByAnId) {
  const UniqueId id = UniqueId::create().value();
  std::optional<Communicator> joined[2];
  std::thread other([&] { joined[1] = Communicator::create(id, 1, 2).value(); });
  joined[0] = Communicator::create(id, 0, 2).value();
  other.join();
  std::vector<Communicator> ranks;
  for (auto& each : joined) ranks.push_back(std::move(*each));
  expect_waits_for_operator(ranks, 0.3);
}

TEST(Fence, RanksThatAllGiveUpAtOnceDoNotWaitForEachOther) {
  constexpr int kRanks = 4;
  constexpr std::size_t kCount = 1 << 14;
  for (int round = 0; round < 30; ++round) {
    auto ranks = Communicator::create_threads(kRanks).value();
    std::atomic<int> rounds{0};
    std::vector<std::thread> threads;
    for (Communicator& rank : ranks)
      threads.emplace_back([&] {
        std::vector<float> input(kCount, 1);
        std::vector<float> output(kCount);
        while (rank.all_reduce(input.data(), output.data(), kCount, DataType::float32, Operator::sum)) ++rounds;
      });
    while (rounds < kRanks * 3) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    ranks[static_cast<std::size_t>(round % kRanks)].abort("had enough");
    for (std::thread& thread : threads) thread.join();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  }
}

}  // namespace
}  // namespace tutti
