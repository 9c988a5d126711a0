// Sums of floats have the same bits from run to run, on ranks that are threads.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "awkward.hpp"
#include "tutti/communicator.hpp"

namespace tutti::integration {
namespace {

using Results = std::vector<std::vector<float>>;  // by rank

Results sum_on(std::vector<Communicator>& ranks, const Results& given) {
  Results sums(ranks.size(), std::vector<float>(given[0].size()));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] {
      const Status done = ranks[rank].all_reduce(given[rank].data(), sums[rank].data(), given[rank].size(),
                                                 DataType::float32, Operator::sum);
      EXPECT_TRUE(done) << done.error().to_string();
    });
  for (std::thread& thread : threads) thread.join();
  return sums;
}

class Bits : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OfThreads, Bits, testing::Values(2, 3, 5, 8), testing::PrintToStringParamName());

TEST_P(Bits, AreTheSameFromRunToRunAndOnAllRanks) {
  constexpr int kCommunicators = 2;
  constexpr int kRepeats = 3;
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{100003}, std::size_t{1} << 20}) {
    Results given;
    for (int rank = 0; rank < GetParam(); ++rank) given.push_back(awkward_floats(rank, count));
    std::vector<float> first;
    for (int maker = 0; maker < kCommunicators; ++maker) {
      auto ranks = Communicator::create_threads(GetParam());
      ASSERT_TRUE(ranks) << ranks.error().to_string();
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        const Results sums = sum_on(*ranks, given);
        if (first.empty()) first = sums[0];
        for (std::size_t rank = 0; rank < sums.size(); ++rank)
          ASSERT_EQ(first_difference(first, sums[rank]), count)
              << fmt::format("{} elements, communicator {}, repeat {}, rank {}", count, maker, repeat, rank);
      }
    }
  }
}

}  // namespace
}  // namespace tutti::integration
