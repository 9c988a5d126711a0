// What a communicator promises, on ranks that are threads; tests/integration holds results and failures of processes.
#include "tutti/communicator.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "communicator/install.hpp"
#include "program/check/proof_test_kit.hpp"
#include "tutti/memory.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Runs `body` once per rank, each on a thread of its own.
void on_ranks(int size, const std::function<void(Communicator&)>& body, const Options& options = {}) {
  auto all = Communicator::create_threads(size, options);
  ASSERT_TRUE(all) << all.error().to_string();
  std::vector<std::thread> threads;
  for (Communicator& communicator : *all) threads.emplace_back([&] { body(communicator); });
  for (std::thread& thread : threads) thread.join();
}

Status sum_one(Communicator& communicator, float& mine, float& sum) {
  return communicator.all_reduce(&mine, &sum, 1, DataType::float32, Operator::sum);
}

TEST(Communicator, AllReducesOneNumberManyTimes) {
  on_ranks(2, [](Communicator& communicator) {
    for (int round = 0; round < 1000; ++round) {
      float mine = static_cast<float>(communicator.rank() + 1 + round);
      float sum = 0;
      const Status done = sum_one(communicator, mine, sum);
      ASSERT_TRUE(done) << done.error().to_string();
      ASSERT_EQ(sum, static_cast<float>(3 + 2 * round));
    }
  });
}

TEST(Communicator, OfSixtyFourThreadsIsMadeInLessThanASecond) {
  const auto start = Clock::now();
  const auto all = Communicator::create_threads(64);
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_LT(seconds_since(start), 1.0);
}

/// A program whose ranks do nothing: what a collective moves without it would bypass the engine.
Program idle_program(Collective collective, int ranks) {
  Shape shape;
  shape.collective = collective;
  shape.ranks = ranks;
  return make_flat("idle", shape, std::vector<RankProgram>(static_cast<std::size_t>(ranks)));
}

TEST(Communicator, RefusesAProgramThatDoesNotDoWhatItSays) {
  on_ranks(2, [](Communicator& communicator) {
    const Status installed = install_program(communicator, idle_program(Collective::all_reduce, 2));
    ASSERT_FALSE(installed);
    EXPECT_NE(installed.error().message.find("program idle of all_reduce over 2 ranks is wrong"), std::string::npos)
        << installed.error().message;
    EXPECT_FALSE(install_program(communicator, idle_program(Collective::all_reduce, 3)));
    float mine = 1;
    float sum = 0;
    ASSERT_TRUE(sum_one(communicator, mine, sum));
    EXPECT_EQ(sum, 2.0F) << "the built-in program runs";
  });
}

TEST(Communicator, ProvesABuiltInProgramOnceForAllRanksOfTheProcess) {
  Options options;
  options.select = "all_reduce:*:ring";
  const std::uint64_t before = Proofs::of_process().made();
  for (int round = 0; round < 2; ++round)
    on_ranks(
        7,
        [](Communicator& communicator) {
          float mine = 1;
          float sum = 0;
          for (int call = 0; call < 3; ++call) ASSERT_TRUE(sum_one(communicator, mine, sum));
        },
        options);
  EXPECT_EQ(Proofs::of_process().made(), before + 1);
}

TEST(Communicator, MovesNoByteThatItsProgramDoesNot) {
  for (const std::size_t count : {2UL, 20000UL})
    on_ranks(2, [count](Communicator& communicator) {
      for (const Collective collective :
           {Collective::all_reduce, Collective::reduce, Collective::broadcast, Collective::all_gather,
            Collective::reduce_scatter, Collective::all_to_all, Collective::gather, Collective::scatter})
        ASSERT_TRUE(install_program(communicator, UnprovenForTests::make(idle_program(collective, 2))));
      const std::vector<float> send(2 * count, 1.0F);
      std::vector<float> recv(2 * count, 7.0F);
      const auto type = DataType::float32;
      EXPECT_TRUE(communicator.all_reduce(send.data(), recv.data(), count, type, Operator::sum));
      EXPECT_TRUE(communicator.reduce(send.data(), recv.data(), count, type, Operator::sum, 0));
      EXPECT_TRUE(communicator.broadcast(send.data(), recv.data(), count, type, 0));
      EXPECT_TRUE(communicator.all_gather(send.data(), recv.data(), count, type));
      EXPECT_TRUE(communicator.reduce_scatter(send.data(), recv.data(), count, type, Operator::sum));
      EXPECT_TRUE(communicator.all_to_all(send.data(), recv.data(), count, type));
      EXPECT_TRUE(communicator.gather(send.data(), recv.data(), count, type, 0));
      EXPECT_TRUE(communicator.scatter(send.data(), recv.data(), count, type, 0));
      EXPECT_EQ(std::count(recv.begin(), recv.end(), 7.0F), static_cast<std::ptrdiff_t>(recv.size()));
    });
}

TEST(Communicator, RunsEveryAlgorithmWhereItIsAskedTo) {
  for (int size = 1; size <= 6; ++size)
    for (const Algorithm& algorithm : algorithms()) {
      if (!algorithm.supports(Collective::all_reduce, Layout::one_host(size))) continue;
      Options options;
      options.select = "all_reduce:*:" + std::string(algorithm.name);
      on_ranks(
          size,
          [&](Communicator& communicator) {
            for (const std::size_t count : {1UL, 1000UL, 70001UL}) {
              std::vector<std::int32_t> values(count, communicator.rank() + 1);
              const Status done =
                  communicator.all_reduce(values.data(), values.data(), count, DataType::int32, Operator::sum);
              ASSERT_TRUE(done) << algorithm.name << ": " << done.error().to_string();
              ASSERT_EQ(values, std::vector<std::int32_t>(count, size * (size + 1) / 2)) << algorithm.name;
            }
          },
          options);
    }
}

TEST(Communicator, NamesTheValueAtFault) {
  on_ranks(1, [](Communicator& communicator) {
    float value = 0;
    const auto message = [](const Status& status) { return status ? std::string("ok") : status.error().message; };
    const auto type = DataType::float32;
    auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(&value) + 1);
    EXPECT_EQ(message(communicator.all_reduce(nullptr, &value, 1, type, Operator::sum)),
              "all_reduce: the send buffer is null");
    EXPECT_NE(message(communicator.all_reduce(odd, &value, 1, type, Operator::sum)).find("not aligned to float32"),
              std::string::npos);
    EXPECT_NE(message(communicator.broadcast(&value, &value, 1, type, 3)).find("root 3"), std::string::npos);
    EXPECT_NE(message(communicator.all_reduce(&value, &value, ~std::size_t{0}, type, Operator::sum)).find("overflow"),
              std::string::npos);
    EXPECT_NE(message(communicator.all_reduce(&value, &value, 1, static_cast<DataType>(99), Operator::sum)).find("99"),
              std::string::npos);
    EXPECT_NE(message(communicator.all_reduce(&value, &value, 1, type, Operator::bit_xor)).find("xor"),
              std::string::npos);
    EXPECT_NE(message(communicator.send(&value, 1, type, 7)).find("rank 7"), std::string::npos);
    EXPECT_TRUE(communicator.barrier()) << "arguments that were refused leave the communicator whole";
  });
}

TEST(Communicator, ReportsCallsThatDifferToAllRanksNamingBoth) {
  on_ranks(3, [](Communicator& communicator) {
    std::vector<float> buffer(4096, -1.0F);
    const auto start = Clock::now();
    const bool odd = communicator.rank() == 1;
    const Status done =
        odd ? communicator.broadcast(buffer.data(), buffer.data(), 10, DataType::float32, 0)
            : communicator.all_reduce(buffer.data(), buffer.data(), 10, DataType::float32, Operator::sum);
    ASSERT_FALSE(done);
    EXPECT_LT(seconds_since(start), 2.0);
    EXPECT_EQ(done.error().code, ErrorCode::mismatch) << done.error().to_string();
    EXPECT_NE(done.error().message.find("broadcast"), std::string::npos) << done.error().message;
    EXPECT_NE(done.error().message.find("all_reduce"), std::string::npos) << done.error().message;
    EXPECT_EQ(buffer, std::vector<float>(4096, -1.0F)) << "bytes of a mismatched transfer were written";
  });
}

TEST(Communicator, ReportsCountsThatDifferAtEverySize) {
  for (const std::size_t count : {4UL, 4000UL, 400000UL})
    on_ranks(2, [count](Communicator& communicator) {
      std::vector<float> send(count + 1, 1.0F);
      std::vector<float> recv(count + 1, -1.0F);
      const Status done = communicator.all_reduce(send.data(), recv.data(), count + communicator.rank(),
                                                  DataType::float32, Operator::sum);
      ASSERT_FALSE(done) << count;
      EXPECT_EQ(done.error().code, ErrorCode::mismatch) << done.error().to_string();
    });
}

TEST(Communicator, ReportsARankThatIsACallAhead) {
  // Its first call needs nothing of the others, so that its next one, the same as theirs, meets their first.
  for (const std::size_t count : {4UL, 400000UL})
    on_ranks(3, [count](Communicator& communicator) {
      const bool odd = communicator.rank() == 2;
      std::vector<float> send(count, 1.0F);
      std::vector<float> recv(count, -1.0F);
      if (odd) {
        const Status first = communicator.broadcast(send.data(), send.data(), 1, DataType::float32, 2);
        // The others may notice while it is still in that call.
        if (!first) {
          EXPECT_EQ(first.error().code, ErrorCode::mismatch) << first.error().to_string();
          return;
        }
      }
      const Status done = communicator.all_reduce(send.data(), recv.data(), count, DataType::float32, Operator::sum);
      ASSERT_FALSE(done) << count;
      EXPECT_EQ(done.error().code, ErrorCode::mismatch) << done.error().to_string();
      EXPECT_EQ(recv, std::vector<float>(count, -1.0F)) << "bytes of a mismatched transfer were written";
    });
}

TEST(Communicator, AbortFreesRanksThatWaitAndReturnsAtOnce) {
  auto all = Communicator::create_threads(2).value();
  std::thread waiter([&] {
    float mine = 1;
    float sum = 0;
    const Status done = sum_one(all[0], mine, sum);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::aborted);
    EXPECT_NE(done.error().message.find("had enough"), std::string::npos) << done.error().message;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto start = Clock::now();
  all[1].abort("had enough");
  EXPECT_LT(seconds_since(start), 0.1);
  waiter.join();
  EXPECT_LT(seconds_since(start), 1.0);
  EXPECT_FALSE(all[0].barrier()) << "a broken communicator stays broken";
}

TEST(Communicator, NamesTheRankItWaitedForWhenTimeIsUp) {
  Options options;
  options.timeout = 0.3;
  auto all = Communicator::create_threads(3, options).value();
  std::vector<std::thread> threads;
  for (const int rank : {0, 2})
    threads.emplace_back([&, rank] {
      const Status done = all[static_cast<std::size_t>(rank)].barrier();
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, ErrorCode::timed_out);
      EXPECT_NE(done.error().message.find("rank 1"), std::string::npos) << done.error().message;
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Communicator, SplitsByColorAndOrdersByKey) {
  on_ranks(5, [](Communicator& communicator) {
    const int rank = communicator.rank();
    auto part = communicator.split(rank == 4 ? -1 : rank % 2, -rank);
    ASSERT_TRUE(part) << part.error().to_string();
    if (rank == 4) {
      EXPECT_EQ(*part, nullptr);
      return;
    }
    EXPECT_EQ((*part)->size(), 2);
    EXPECT_EQ((*part)->rank(), rank < 2 ? 1 : 0);
    float mine = static_cast<float>(rank);
    float sum = 0;
    ASSERT_TRUE(sum_one(**part, mine, sum));
    EXPECT_EQ(sum, rank % 2 == 0 ? 2 : 4);
  });
}

TEST(Communicator, ShrinksToAllWhereAllLive) {
  on_ranks(3, [](Communicator& communicator) {
    Result<Communicator> next = communicator.shrink();
    ASSERT_TRUE(next) << next.error().to_string();
    EXPECT_EQ(next->size(), 3);
    float mine = 1;
    float sum = 0;
    ASSERT_TRUE(sum_one(*next, mine, sum));
    EXPECT_EQ(sum, 3);
  });
}

TEST(Communicator, SeveralAtOnceFromSeveralThreadsDoNotWaitForEachOther) {
  on_ranks(2, [](Communicator& communicator) {
    Communicator other = communicator.duplicate().value();
    const auto loop = [](Communicator& each) {
      for (int i = 0; i < 200; ++i) {
        float mine = 1;
        float sum = 0;
        ASSERT_TRUE(sum_one(each, mine, sum));
        ASSERT_EQ(sum, 2);
      }
    };
    // Rank 0 starts with the one, rank 1 with the other.
    std::thread beside([&] { loop(communicator.rank() == 0 ? communicator : other); });
    loop(communicator.rank() == 0 ? other : communicator);
    beside.join();
  });
}

TEST(Group, RunsSendsAndReceivesInAnyOrderWithCollectives) {
  on_ranks(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    std::vector<std::vector<int>> out(3, std::vector<int>(50000, rank));
    std::vector<std::vector<int>> in(3, std::vector<int>(50000, -1));
    float mine = 1;
    float sum = 0;
    Group group;
    if (rank == 1) {
      ASSERT_TRUE(sum_one(communicator, mine, sum));
    }
    for (int peer = 2; peer >= 0; --peer) {
      ASSERT_TRUE(communicator.send(out[static_cast<std::size_t>(peer)].data(), 50000, DataType::int32, peer));
      const int from = (peer + rank) % 3;
      ASSERT_TRUE(communicator.recv(in[static_cast<std::size_t>(from)].data(), 50000, DataType::int32, from));
    }
    if (rank != 1) {
      ASSERT_TRUE(sum_one(communicator, mine, sum));
    }
    const Status done = group.end();
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_EQ(sum, 3);
    for (int peer = 0; peer < 3; ++peer) EXPECT_EQ(in[static_cast<std::size_t>(peer)], std::vector<int>(50000, peer));
  });
}

TEST(Work, IsDrivenWithoutItsCallerAndWaitsWithADeadline) {
  on_ranks(2, [](Communicator& communicator) {
    const std::vector<float> send(100000, 1.0F);
    std::vector<float> recv(100000);
    if (communicator.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Work work =
        communicator.all_reduce_async(send.data(), recv.data(), send.size(), DataType::float32, Operator::sum).value();
    if (communicator.rank() == 0) {
      const Status early = work.wait(0.01);
      ASSERT_FALSE(early);
      EXPECT_EQ(early.error().code, ErrorCode::timed_out);
      while (!work.test()) std::this_thread::yield();
    }
    ASSERT_TRUE(work.wait());
    EXPECT_EQ(work.error(), nullptr);
    EXPECT_EQ(recv[99999], 2.0F);
  });
}

TEST(Memory, OfAllocateIsWrittenByPeersDirectly) {
  on_ranks(3, [](Communicator& communicator) {
    constexpr std::size_t kCount = 1 << 20;
    auto* const send = static_cast<float*>(allocate(kCount * sizeof(float)).value());
    auto* const recv = static_cast<float*>(allocate(kCount * sizeof(float)).value());
    std::fill_n(send, kCount, static_cast<float>(communicator.rank()));
    ASSERT_TRUE(communicator.all_reduce(send, recv, kCount, DataType::float32, Operator::max));
    EXPECT_EQ(std::count(recv, recv + kCount, 2.0F), static_cast<std::ptrdiff_t>(kCount));
    ASSERT_TRUE(communicator.barrier());
    ASSERT_TRUE(deallocate(send));
    ASSERT_TRUE(deallocate(recv));
  });
}

}  // namespace
}  // namespace tutti
