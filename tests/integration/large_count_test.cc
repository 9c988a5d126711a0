// Counts that do not fit in 31 bits, and bytes that do not fit in 32.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::integration {
namespace {

constexpr std::size_t kBeyond = std::size_t{1} << 31;
constexpr std::size_t kCount = kBeyond + 17;
constexpr int kRanks = 2;

std::size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;)
    if (std::size_t kilobytes = 0; word == "MemAvailable:" && file >> kilobytes) return kilobytes << 10;
  return 0;
}

/// Zeroes, of which pages exist once they are written.
class Zeroes {
 public:
  explicit Zeroes(std::size_t count)
      : count_(count),
        memory_(::mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    ::madvise(memory_, count_, MADV_HUGEPAGE);  // a million page faults would take longer than the collective
  }
  ~Zeroes() { ::munmap(memory_, count_); }
  Zeroes(const Zeroes&) = delete;
  Zeroes& operator=(const Zeroes&) = delete;

  bool exist() const { return memory_ != MAP_FAILED; }
  std::int8_t* data() const { return static_cast<std::int8_t*>(memory_); }

 private:
  std::size_t count_;
  void* memory_;
};

/// Where an index that lost its upper bits, or a wrong half, would show.
template <typename Body>
void at_telling_indices(Body body) {
  constexpr std::size_t kNear = 16;
  for (std::size_t i = 0; i < kNear; ++i) body(i);
  for (std::size_t i = kCount / 2 - kNear; i < kCount / 2 + kNear; ++i) body(i);
  for (std::size_t i = kBeyond - kNear; i < kCount; ++i) body(i);
}

std::int8_t given(int rank, std::size_t index) {
  return static_cast<std::int8_t>(1 + (index % 31) + 32 * static_cast<std::size_t>(rank));
}

class LargeCount : public testing::Test {
 protected:
  void SetUp() override {
    constexpr std::size_t kNeeded = std::size_t{12} << 30;
    if (available_memory() < kNeeded)
      GTEST_SKIP() << fmt::format("needs 12 GB of free memory, {} are", available_memory() >> 30);
  }

  /// Runs `body` on each rank with a buffer of so many elements.
  void on_ranks(std::size_t count, const std::function<void(Communicator&, std::int8_t*)>& body) {
    auto all = Communicator::create_threads(kRanks);
    ASSERT_TRUE(all) << all.error().to_string();
    std::vector<std::thread> threads;
    for (Communicator& communicator : *all)
      threads.emplace_back([&] {
        const Zeroes buffer(count);
        ASSERT_TRUE(buffer.exist());
        body(communicator, buffer.data());
        EXPECT_TRUE(communicator.barrier()) << "a peer may still read the buffer";
      });
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(LargeCount, IsReduced) {
  on_ranks(kCount, [](Communicator& communicator, std::int8_t* buffer) {
    at_telling_indices([&](std::size_t i) { buffer[i] = given(communicator.rank(), i); });
    const Status done = communicator.all_reduce(buffer, buffer, kCount, DataType::int8, Operator::sum);
    ASSERT_TRUE(done) << done.error().to_string();
    at_telling_indices([&](std::size_t i) { ASSERT_EQ(buffer[i], given(0, i) + given(1, i)) << i; });
  });
}

TEST_F(LargeCount, IsBroadcast) {
  on_ranks(kCount, [](Communicator& communicator, std::int8_t* buffer) {
    if (communicator.rank() == 1) at_telling_indices([&](std::size_t i) { buffer[i] = given(1, i); });
    const Status done = communicator.broadcast(buffer, buffer, kCount, DataType::int8, 1);
    ASSERT_TRUE(done) << done.error().to_string();
    at_telling_indices([&](std::size_t i) { ASSERT_EQ(buffer[i], given(1, i)) << i; });
  });
}

TEST_F(LargeCount, IsGathered) {
  on_ranks(kRanks * kCount, [](Communicator& communicator, std::int8_t* buffer) {
    std::int8_t* const mine = buffer + static_cast<std::size_t>(communicator.rank()) * kCount;
    at_telling_indices([&](std::size_t i) { mine[i] = given(communicator.rank(), i); });
    const Status done = communicator.all_gather(mine, buffer, kCount, DataType::int8);
    ASSERT_TRUE(done) << done.error().to_string();
    for (int rank = 0; rank < kRanks; ++rank)
      at_telling_indices([&](std::size_t i) {
        ASSERT_EQ(buffer[static_cast<std::size_t>(rank) * kCount + i], given(rank, i)) << rank << ": " << i;
      });
  });
}

}  // namespace
}  // namespace tutti::integration
