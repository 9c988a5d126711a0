// One-sided programs as they run: buffers of peers that are mapped or pulled, stages, pushes, and the choice of a plan.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "engine/fake_ranks_test_kit.hpp"
#include "program/check/check_programs_test_kit.hpp"

namespace tutti {
namespace {

using namespace check_programs;
using State = Execution::State;

Program made(std::string_view algorithm, Collective collective, int ranks, int root = 0) {
  const auto program = make_program(algorithm, collective, Layout::one_host(ranks), {.root = root});
  EXPECT_TRUE(program.has_value());
  return *program;
}

TEST(OneSided, WorksOnBuffersOfPeers) {
  for (const int ranks : {2, 3, 5})
    for (const std::size_t count : {0, 1, 100, 1000})
      for (const bool in_place : {false, true})
        for (std::uint64_t seed = 0; seed < 4; ++seed)
          for (const std::size_t tile : {0, 64, 256}) {
            const Task task{.ranks = ranks, .count = count, .in_place = in_place};
            if (!runs_right(direct_all_reduce(ranks), task, {}, seed, tile)) return;
          }
}

TEST(OneSided, PullsWhatItCannotMap) {
  Exercise exercise({.collective = Collective::all_gather, .ranks = 3, .count = 100});
  FakeRanks ranks(3);
  ranks.load(made("direct_pull", Collective::all_gather, 3), exercise, 64);
  ranks.peers(1).is_mapped = false;
  EXPECT_EQ(ranks.run(), Outcome::done);
  EXPECT_EQ(exercise.mistakes() + ranks.fault(), "");
  EXPECT_EQ(ranks.peers(0).pulls(), 7) << "rank 1's input, by tiles";
  EXPECT_EQ(ranks.peers(1).pulls(), 0);
  EXPECT_EQ(ranks.peers(2).pulls(), 7);
  Exercise empty({.collective = Collective::all_gather, .ranks = 3, .count = 0});
  ranks.load(made("direct_pull", Collective::all_gather, 3), empty);
  EXPECT_EQ(ranks.run(), Outcome::done);
  EXPECT_EQ(ranks.peers(0).pulls(), 7) << "no bytes, no pull";
}

TEST(OneSided, PullsWhatItReducesPieceByPiece) {
  constexpr std::size_t kCount = 40000;  // 160,000 bytes: two pieces
  FakeRanks ranks(3);
  for (const int mapped : {3, 2, 1, 0}) {
    Exercise exercise({.collective = Collective::reduce_scatter, .ranks = 3, .count = kCount});
    ranks.load(made("direct_pull", Collective::reduce_scatter, 3), exercise);
    std::vector<int> pulls_before;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.peers(rank).is_mapped = rank < mapped;
      pulls_before.push_back(ranks.peers(rank).pulls());
    }
    EXPECT_EQ(ranks.run(), Outcome::done);
    EXPECT_EQ(exercise.mistakes() + ranks.fault(), "") << mapped << " ranks are mapped";
    for (int rank = 0; rank < 3; ++rank) {
      const int pulled_peers = 3 - mapped - (rank < mapped ? 0 : 1);
      EXPECT_EQ(ranks.peers(rank).pulls() - pulls_before[static_cast<std::size_t>(rank)], 2 * pulled_peers);
    }
  }
}

TEST(OneSided, ReducesMoreOperandsThanItHasPlacesReady) {
  for (const int ranks : {63, 64, 70})
    EXPECT_TRUE(runs_right(made("direct_oneshot", Collective::all_reduce, ranks), {.ranks = ranks, .count = 5}, {}, 1));
}

TEST(OneSided, TouchesNoPeerThatHasNotEntered) {
  Exercise exercise({.ranks = 3, .count = 30});
  FakeRanks ranks(3);
  ranks.load(direct_all_reduce(3), exercise);
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(ranks.start(rank).has_value());
    EXPECT_FALSE(ranks.advance(rank));
  }
  const Execution::Waiting first = ranks.execution(0).waiting_for();
  EXPECT_EQ(first.rank, 1);
  EXPECT_EQ(first.worker, 0);
  EXPECT_EQ(first.step, 0);
  EXPECT_FALSE(ranks.advance(0));
  EXPECT_EQ(ranks.execution(0).waiting_for().rank, 2) << "rank 1 has come in the meantime";
  EXPECT_EQ(ranks.peers(0).uses(), 1);
  EXPECT_TRUE(exercise.is_untouched(0) && exercise.is_untouched(1));
  EXPECT_EQ(ranks.run(), Outcome::done);
  EXPECT_EQ(exercise.mistakes() + ranks.fault(), "");
  EXPECT_EQ(ranks.peers(0).uses(), 0);
}

TEST(OneSided, WaitsForSignals) {
  Exercise exercise({.ranks = 3, .count = 30});
  FakeRanks ranks(3);
  ranks.load(direct_all_reduce(3), exercise);
  ranks.start_all();
  ranks.advance(0);
  const Execution::Waiting waiting = ranks.execution(0).waiting_for();
  EXPECT_EQ(waiting.rank, 1);
  EXPECT_EQ(waiting.step, 3);
  ranks.advance(1);
  ranks.advance(0);
  EXPECT_EQ(ranks.execution(0).waiting_for().rank, 2);
  EXPECT_EQ(ranks.execution(0).state(), State::running);
  ranks.advance(2);
  ranks.advance(0);
  EXPECT_EQ(ranks.execution(0).state(), State::done);
}

TEST(OneSided, WakesItsNeighboursWhenItEnters) {
  Exercise exercise({.ranks = 3, .count = 30});
  FakeRanks ranks(3);
  ranks.load(direct_all_reduce(3), exercise);
  ASSERT_TRUE(ranks.start(1).has_value());
  EXPECT_EQ(ranks.peers(1).rung(), (std::vector<int>{0, 2}));
}

TEST(OneSided, WakesNeighboursThatItDoesNotTouch) {
  Exercise exercise({.collective = Collective::broadcast, .ranks = 3, .count = 30});
  FakeRanks ranks(3);
  ranks.load(made("direct_push", Collective::broadcast, 3), exercise);
  ASSERT_TRUE(ranks.start(1).has_value());
  EXPECT_EQ(ranks.peers(1).rung(), (std::vector<int>{0}));
}

/// Returns for how many ticks rank 1 has waited for rank 0, which enters and runs after many polls.
std::uint64_t waited_until_heard(const char* algorithm) {
  Exercise exercise({.collective = Collective::broadcast, .ranks = 2, .count = 30});
  FakeRanks ranks(2);
  ranks.load(made(algorithm, Collective::broadcast, 2), exercise);
  monitor::Active active;
  active.waited_for.set(-1);
  active.entered.set(ticks());
  ranks.execution(1).observe(&active, nullptr);
  EXPECT_TRUE(ranks.start(1).has_value());
  for (int i = 0; i < 100; ++i) ranks.advance(1);
  EXPECT_EQ(ranks.run(), Outcome::done);
  EXPECT_EQ(active.waited_for.get(), active.waited.get() != 0 ? 0 : -1);
  return active.waited.get();
}

TEST(OneSided, RecordsHowLongAPeerWasWaitedForThatEnteredOrSignalled) {
  EXPECT_NE(waited_until_heard("direct_pull"), 0u) << "it entered";
  EXPECT_NE(waited_until_heard("direct_push"), 0u) << "it signalled";
}

TEST(OneSided, WritesIntoBuffersOfPeersOnlyIfItMay) {
  Exercise exercise({.ranks = 2, .count = 30});
  FakeRanks ranks(2);
  ranks.load(direct_all_reduce(2), exercise);
  ranks.peers(0).refuses_push = true;
  EXPECT_EQ(ranks.run(), Outcome::stuck);
  EXPECT_EQ(ranks.peers(0).pushes(), 0);
  EXPECT_EQ(ranks.execution(0).waiting_for().rank, -1);
  ranks.peers(0).refuses_push = false;
  EXPECT_EQ(ranks.run(), Outcome::done);
  EXPECT_EQ(ranks.peers(0).pushes(), 1) << "signals and waits need no leave";
  EXPECT_EQ(exercise.mistakes() + ranks.fault(), "");
}

TEST(OneSided, StagesTileByTile) {
  Exercise exercise({.ranks = 3, .count = 1000});  // chunks of 1344, 1344 and 1312 bytes
  FakeRanks ranks(3, {.stage_bytes = 1024}, 1);
  ranks.load(made("staged", Collective::all_reduce, 3), exercise);
  EXPECT_EQ(ranks.run(), Outcome::done);
  EXPECT_EQ(exercise.mistakes() + ranks.fault(), "");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.peers(rank).stage().turns(), 5) << "of 320 bytes";
    EXPECT_EQ(ranks.peers(rank).stage().half(), 1);
    EXPECT_EQ(ranks.peers(rank).stage().copies(), 5 * 3) << "two blocks, and the result";
    EXPECT_EQ(ranks.peers(rank).pulls() + ranks.peers(rank).uses(), 0);
  }
  EXPECT_EQ(ranks.peers(0).stage().bytes_read(), 3u * 1344 + 1312) << "two operands of its chunk, two results";
}

TEST(OneSided, KeepsToOneHalfOfTheStageIfRanksDoNotHearOfAll) {
  Exercise exercise({.collective = Collective::broadcast, .ranks = 3, .count = 600});
  FakeRanks ranks(3, {.stage_bytes = 512}, 1);
  ranks.load(made("staged", Collective::broadcast, 3), exercise);
  EXPECT_EQ(ranks.run(), Outcome::done);
  EXPECT_EQ(exercise.mistakes() + ranks.fault(), "");
  EXPECT_EQ(ranks.peers(0).stage().turns(), 5);
  EXPECT_EQ(ranks.peers(0).stage().half(), 0);
  EXPECT_EQ(ranks.peers(0).stage().bytes_read(), 0u) << "the root reads no stage of others";
  EXPECT_EQ(ranks.peers(1).stage().bytes_read(), 2400u);
  EXPECT_EQ(ranks.peers(0).operations_left(), 0);
}

TEST(OneSided, StagesWhatItReducesInPiecesThatStayInTheCache) {
  Exercise exercise({.ranks = 2, .count = 10000});  // chunks of 20,032 and 19,968 bytes: two pieces
  FakeRanks ranks(2, {.stage_bytes = 1 << 20});
  ranks.load(made("staged", Collective::all_reduce, 2), exercise);
  EXPECT_EQ(ranks.run(), Outcome::done);
  EXPECT_EQ(exercise.mistakes() + ranks.fault(), "");
  EXPECT_EQ(ranks.peers(0).stage().copies(), 1 + 2);
}

TEST(OneSided, RunsOneOperationAfterAnotherWithoutMeetingInBetween) {
  struct Case {
    const char* algorithm;
    Collective collective;
  };
  for (const Case& each : {Case{"staged", Collective::all_reduce}, Case{"staged", Collective::all_gather},
                           Case{"staged", Collective::broadcast}, Case{"direct_pull", Collective::all_gather},
                           Case{"direct_push", Collective::all_reduce}, Case{"direct_oneshot", Collective::all_reduce},
                           Case{"direct_push", Collective::scatter}, Case{"direct_pull", Collective::reduce}})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      std::vector<std::unique_ptr<Exercise>> exercises;
      FakeRanks ranks(3, {.stage_bytes = 512}, seed);
      for (std::uint64_t i = 0; i < 5; ++i) {
        exercises.push_back(
            std::make_unique<Exercise>(Task{.collective = each.collective, .ranks = 3, .count = 100, .seed = i}));
        if (i == 0) ranks.load(made(each.algorithm, each.collective, 3), *exercises[0]);
        if (i > 0) ranks.load_next(*exercises[i]);
      }
      ASSERT_EQ(ranks.run(), Outcome::done) << each.algorithm << " " << name_of(each.collective) << ", seed " << seed;
      ASSERT_EQ(ranks.fault(), "");
      for (const auto& exercise : exercises) ASSERT_EQ(exercise->mistakes(), "") << each.algorithm << ", seed " << seed;
    }
}

TEST(OneSided, LeavesTheOperationIfItKnowsThatAllHaveEntered) {
  const auto left = [](const char* algorithm, Collective collective) {
    Exercise exercise({.collective = collective, .ranks = 3, .count = 10});
    FakeRanks ranks(3);
    ranks.load(made(algorithm, collective, 3), exercise);
    EXPECT_EQ(ranks.run(), Outcome::done);
    return ranks.peers(1).operations_left();
  };
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all})
    EXPECT_EQ(left("direct_pull", collective), 1) << name_of(collective);
  EXPECT_EQ(left("direct_push", Collective::reduce), 1) << "all meet in it";
  EXPECT_EQ(left("direct_push", Collective::broadcast), 0);
  EXPECT_EQ(left("oneshot", Collective::all_reduce), 0) << "nobody has announced anything";
}

/// Ranks that run "direct_push" if all buffers can be mapped, else another program.
struct TwoPlans {
  explicit TwoPlans(const char* otherwise, std::uint64_t seed = 0)
      : exercise({.ranks = 3, .count = 100}), ranks(3, {.stage_bytes = 512}, seed) {
    ranks.load(made(otherwise, Collective::all_reduce, 3), exercise);
    ranks.load_mapped(made("direct_push", Collective::all_reduce, 3), 64);
  }
  void expect_that_all_run(const char* name) {
    EXPECT_EQ(ranks.run(), Outcome::done);
    EXPECT_EQ(exercise.mistakes() + ranks.fault(), "");
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.execution(rank).plan().name, name) << "rank " << rank;
  }

  Exercise exercise;
  FakeRanks ranks;
};

TEST(TwoPlans, RunTheSecondIfAllBuffersCanBeMapped) {
  for (const char* const otherwise : {"staged", "oneshot"})
    for (std::uint64_t seed = 0; seed < 10; ++seed) TwoPlans(otherwise, seed).expect_that_all_run("direct_push");
}

TEST(TwoPlans, RunTheFirstOnAllRanksIfOneBufferCannotBeMapped) {
  for (const char* const otherwise : {"staged", "oneshot"})
    for (const int unmapped : {0, 1, 2})
      for (std::uint64_t seed = 0; seed < 10; ++seed) {
        TwoPlans plans(otherwise, seed);
        plans.ranks.peers(unmapped).is_mapped = false;
        plans.expect_that_all_run(otherwise);
      }
}

TEST(TwoPlans, AreChosenFromOnceTheOthersHaveEntered) {
  TwoPlans plans("staged");
  FakeRanks& ranks = plans.ranks;
  ASSERT_TRUE(ranks.start(0).has_value());
  EXPECT_FALSE(ranks.advance(0));
  Execution::Waiting waiting = ranks.execution(0).waiting_for();
  EXPECT_EQ(waiting.rank, 1);
  EXPECT_EQ(waiting.worker, -1);
  EXPECT_EQ(waiting.step, -1);
  ASSERT_TRUE(ranks.start(1).has_value());
  EXPECT_FALSE(ranks.advance(0));
  EXPECT_EQ(ranks.execution(0).waiting_for().rank, 2);
  EXPECT_EQ(ranks.peers(0).stage().turns(), 0);
  ranks.peers(2).is_mapped = false;
  ASSERT_TRUE(ranks.start(2).has_value());
  EXPECT_EQ(ranks.peers(2).stage().turns(), 1) << "it need not hear of the others";
  EXPECT_TRUE(ranks.advance(0));
  EXPECT_EQ(ranks.peers(0).stage().turns(), 1);
  plans.expect_that_all_run("staged");
}

TEST(TwoPlans, AreChosenFromAnewByEveryOperation) {
  TwoPlans plans("staged", 1);
  plans.expect_that_all_run("direct_push");
  Exercise second({.ranks = 3, .count = 100, .seed = 2});
  plans.ranks.load_next(second);
  plans.ranks.peers(1).is_mapped = false;
  plans.expect_that_all_run("staged");
  Exercise third({.ranks = 3, .count = 100, .seed = 3});
  plans.ranks.load_next(third);
  plans.ranks.peers(1).is_mapped = true;
  plans.expect_that_all_run("direct_push");
  EXPECT_EQ(second.mistakes() + third.mistakes(), "");
}

TEST(TwoPlans, AreForgottenByTheNextCall) {
  TwoPlans plans("staged");
  plans.expect_that_all_run("direct_push");
  Exercise second({.ranks = 3, .count = 100, .seed = 2});
  plans.ranks.load(made("staged", Collective::all_reduce, 3), second);
  plans.expect_that_all_run("staged");
  EXPECT_EQ(second.mistakes(), "");
}

TEST(TwoPlans, WakeTheNeighboursInBoth) {
  TwoPlans plans("oneshot");
  ASSERT_TRUE(plans.ranks.start(1).has_value());
  EXPECT_EQ(plans.ranks.peers(1).rung(), (std::vector<int>{0, 2}));
}

TEST(TwoPlans, RecordWhichOneRuns) {
  TwoPlans plans("staged");
  monitor::Active active;
  active.program.set(1);
  active.workers.set(9);
  active.progress[0].set(7);
  plans.ranks.mapped_plan(0).recorded_as = 5;
  plans.ranks.execution(0).observe(&active, nullptr);
  plans.ranks.start_all();
  EXPECT_EQ(active.program.get(), 1u);
  plans.expect_that_all_run("direct_push");
  EXPECT_EQ(active.program.get(), 5u);
  EXPECT_EQ(active.workers.get(), 1u);
}

/// Returns a rank's buffers that are exposed while its operation runs, as bytes of input and output.
std::vector<std::size_t> exposed_bytes(const Task& task, FakeRanks& ranks) {
  Exercise exercise(task);
  ranks.load(made("direct_pull", task.collective, task.ranks), exercise);
  EXPECT_TRUE(ranks.start(1).has_value());
  std::vector<std::size_t> bytes;
  for (const auto& buffer : ranks.execution(1).exposed()) bytes.push_back(buffer.size());
  const Call& call = exercise.call(1);
  const void* const outer = bytes[0] >= bytes[1] ? call.send : call.recv;
  EXPECT_EQ(ranks.execution(1).exposed()[bytes[0] >= bytes[1] ? 0 : 1].data(), outer);
  EXPECT_EQ(ranks.run(), Outcome::done);
  for (const auto& buffer : ranks.execution(1).exposed()) EXPECT_TRUE(buffer.empty()) << "it is done";
  return bytes;
}

TEST(OneSided, ExposesTheBuffersOfARunningCall) {
  FakeRanks ranks(3);
  using Bytes = std::vector<std::size_t>;
  for (const Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
    const Bytes apart = exposed_bytes({.collective = collective, .ranks = 3, .count = 10}, ranks);
    EXPECT_EQ(apart, (collective == Collective::all_reduce   ? Bytes{40, 40}
                      : collective == Collective::all_gather ? Bytes{40, 120}
                                                             : Bytes{120, 40}));
    const Bytes in_place = exposed_bytes({.collective = collective, .ranks = 3, .count = 10, .in_place = true}, ranks);
    EXPECT_EQ(in_place, (collective == Collective::all_reduce   ? Bytes{0, 40}
                         : collective == Collective::all_gather ? Bytes{0, 120}
                                                                : Bytes{120, 0}));
  }
}

}  // namespace
}  // namespace tutti
