// All built-in algorithms, run by the engine on ranks of one host and compared with a plain reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "engine/fake_ranks_test_kit.hpp"

namespace tutti {
namespace {

constexpr int kMostRanks = 6;
constexpr Collective kEveryCollective[] = {
    Collective::all_reduce,     Collective::reduce,        Collective::broadcast, Collective::all_gather,
    Collective::reduce_scatter, Collective::all_to_all,    Collective::gather,    Collective::scatter,
    Collective::barrier,        Collective::point_to_point};

/// Small chunks, slots and stages, so that a thousand elements take several tiles, and chunks several slices.
constexpr FakeLimits kTight{.chunk_limit = 64, .slots = 2, .stage_bytes = 2048};
constexpr FakeLimits kSliced{.chunk_limit = 64, .slots = 8, .stage_bytes = 4096};
constexpr FakeLimits kWide{.chunk_limit = 1 << 16, .slots = 4, .stage_bytes = 1 << 16};

std::vector<int> roots_of(Collective collective, int ranks) {
  if (!has_root(collective) || ranks == 1) return {0};
  return {0, ranks - 1};
}

/// Returns whether every rank can run chunks of different sizes.
bool fits_uneven(const Program& program) {
  FakeRanks ranks(program.shape.ranks);
  for (int rank = 0; rank < program.shape.ranks; ++rank)
    if (!compile(program, rank, false, ranks.links(rank)).value()->fits_uneven()) return false;
  return true;
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {
 protected:
  /// Calls `visit` with every program of the algorithm, and a task for it that has no counts yet.
  template <typename Visit>
  void for_each_program(Visit visit, int instances = 1) const {
    for (int ranks = 1; ranks <= kMostRanks; ++ranks)
      for (const Collective collective : kEveryCollective) {
        if (!GetParam().supports(collective, Layout::one_host(ranks))) continue;
        for (const int root : roots_of(collective, ranks)) {
          const auto program = make_program(GetParam().name, collective, Layout::one_host(ranks),
                                            {.root = root, .instances = instances});
          ASSERT_TRUE(program.has_value()) << program.error().message;
          visit(*program, Task{.collective = collective, .ranks = ranks, .root = root});
          if (HasFailure()) return;
        }
      }
  }

  static void expect_right_in_any_place(const Program& program, Task task, const FakeLimits& limits,
                                        std::uint64_t seed) {
    for (const bool in_place : {false, true}) {
      if (in_place ? !program.in_place : !program.out_of_place) continue;
      task.in_place = in_place;
      task.seed = seed;
      if (!runs_right(program, task, limits, seed)) return;
    }
  }
};

TEST_P(EveryAlgorithm, RunsSmallAndLargeVectors) {
  for_each_program([](const Program& program, Task task) {
    for (const std::size_t count : {0, 1, 10, 333}) {
      task.count = task.collective == Collective::barrier ? 0 : count;
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        expect_right_in_any_place(program, task, kTight, seed);
        expect_right_in_any_place(program, task, kSliced, seed);
        expect_right_in_any_place(program, task, kWide, seed);
      }
      if (HasFailure() || task.collective == Collective::barrier) return;
    }
  });
}

TEST_P(EveryAlgorithm, RunsInSeveralInstances) {
  for_each_program(
      [](const Program& program, Task task) {
        const std::size_t count = fits_uneven(program) ? 500 : 3 * 16 * 60;  // which up to 18 chunks share evenly
        task.count = task.collective == Collective::barrier ? 0 : count;
        expect_right_in_any_place(program, task, kTight, 1);
        expect_right_in_any_place(program, task, kWide, 2);
      },
      3);
}

TEST_P(EveryAlgorithm, AveragesElementsOfOtherSizes) {
  for_each_program([](const Program& program, Task task) {
    if (!reduces(task.collective)) return;
    task.count = 100;
    task.reduction = Operator::average;
    for (const DataType type : {DataType::int8, DataType::int64}) {
      task.type = type;
      expect_right_in_any_place(program, task, kTight, 3);
    }
  });
}

TEST_P(EveryAlgorithm, KeepsTheOrderOfOperandsIfItSaysSo) {
  if (!GetParam().ordered_operands && !GetParam().rank_order) return;
  for_each_program([](const Program& program, Task task) {
    if (!reduces(task.collective)) return;
    task.count = 50;
    task.type = DataType::uint64;
    task.reduction = ordered_reduction();
    for (std::uint64_t seed = 1; seed <= 2; ++seed) expect_right_in_any_place(program, task, kTight, seed);
  });
}

TEST_P(EveryAlgorithm, RunsBlocksOfDifferentSizesIfItsScratchHasKnownSizes) {
  for_each_program([](const Program& program, Task task) {
    if (task.collective != Collective::all_gather && task.collective != Collective::reduce_scatter) return;
    if (!fits_uneven(program)) return;
    for (int rank = 0; rank < task.ranks; ++rank) task.counts.push_back(static_cast<std::size_t>(rank * 97 % 200));
    for (const std::size_t gap : {0, 5}) {
      task.gap = gap;
      for (const FakeLimits& limits : {kTight, kSliced, kWide}) expect_right_in_any_place(program, task, limits, 4);
    }
  });
}

TEST_P(EveryAlgorithm, LetsNobodyOutOfABarrierBeforeAllAreIn) {
  for_each_program([](const Program& program, const Task& task) {
    if (task.collective != Collective::barrier || task.ranks == 1) return;
    for (int last = 0; last < task.ranks; ++last) {
      Exercise exercise(task);
      FakeRanks ranks(task.ranks);
      ranks.load(program, exercise);
      for (int round = 0; round < 20; ++round)
        for (int rank = 0; rank < task.ranks; ++rank) {
          if (rank == last) continue;
          if (round == 0) (void)ranks.start(rank);
          ranks.advance(rank);
          ASSERT_EQ(ranks.execution(rank).state(), Execution::State::running) << "rank " << rank;
        }
      EXPECT_EQ(ranks.run(), Outcome::done);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Engine, EveryAlgorithm, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& algorithm) { return std::string(algorithm.param.name); });

TEST(Oneshot, RunsBlocksWhoseSizesOnlyTheirRanksKnow) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const FakeLimits& limits : {kTight, kSliced, kWide}) {
      const auto all_to_all = make_program("oneshot", Collective::all_to_all, Layout::one_host(3));
      const Task exchanges{.collective = Collective::all_to_all,
                           .ranks = 3,
                           .counts = {1, 0, 400, 90, 2, 0, 17, 0, 0},
                           .gap = seed % 2,
                           .seed = seed};
      EXPECT_TRUE(runs_right(*all_to_all, exchanges, limits, seed));
      for (const Collective collective : {Collective::gather, Collective::scatter}) {
        const auto program = make_program("oneshot", collective, Layout::one_host(3), {.root = 1});
        const Task task{.collective = collective,
                        .ranks = 3,
                        .root = 1,
                        .in_place = seed > 3,
                        .counts = {0, 7, 300},
                        .gap = seed % 2,
                        .seed = seed};
        EXPECT_TRUE(runs_right(*program, task, limits, seed));
      }
    }
}

}  // namespace
}  // namespace tutti
