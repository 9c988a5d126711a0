#include "tutti/communicator.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

namespace tutti {
namespace {

/// Runs `body` once per rank, each on a thread of its own.
void on_ranks(int size, const std::function<void(Communicator&)>& body, const Options& options = {}) {
  auto all = Communicator::create_threads(size, options);
  ASSERT_TRUE(all) << all.error().to_string();
  std::vector<std::thread> threads;
  for (Communicator& communicator : *all) threads.emplace_back([&] { body(communicator); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Communicator, AllReducesOneNumber) {
  on_ranks(2, [](Communicator& communicator) {
    for (int round = 0; round < 1000; ++round) {
      const float mine = static_cast<float>(communicator.rank() + 1 + round);
      float sum = 0;
      const Status done = communicator.all_reduce(&mine, &sum, 1, DataType::float32, Operator::sum);
      ASSERT_TRUE(done) << done.error().to_string();
      ASSERT_EQ(sum, static_cast<float>(3 + 2 * round));
    }
  });
}

TEST(Communicator, AllReducesManySizesAndRanks) {
  for (const int size : {1, 2, 3, 5, 8})
    on_ranks(size, [size](Communicator& communicator) {
      for (const std::size_t count : {0UL, 1UL, 7UL, 1000UL, 4099UL, 300007UL}) {
        std::vector<std::int64_t> mine(count), sum(count);
        for (std::size_t i = 0; i < count; ++i) mine[i] = static_cast<std::int64_t>(i) * (communicator.rank() + 1);
        const Status done = communicator.all_reduce(mine.data(), sum.data(), count, DataType::int64, Operator::sum);
        ASSERT_TRUE(done) << done.error().to_string();
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(sum[i], static_cast<std::int64_t>(i) * size * (size + 1) / 2) << count << " " << i;
      }
    });
}

}  // namespace
}  // namespace tutti
