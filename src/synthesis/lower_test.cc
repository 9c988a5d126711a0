#include "synthesis/lower.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "program/check/check.hpp"

namespace tutti {
namespace {

/// Any schedule that keeps the promises: chunks spread from rank to rank at random, all in parallel.
Schedule random_schedule(Collective collective, int ranks, int chunks, std::mt19937& random) {
  Schedule schedule{"chance", {collective, ranks, int(random() % unsigned(ranks)), chunks}, {}};
  if (!has_root(collective)) schedule.shape.root = 0;
  struct Spread {
    int chunk;
    std::vector<int> holders, others;
  };
  std::vector<Spread> spreads;
  for (int chunk = 0; chunk < chunks_of(schedule.shape); ++chunk) {
    Spread spread{chunk, {home_of(schedule.shape, chunk)}, {}};
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != spread.holders.front()) spread.others.push_back(rank);
    std::shuffle(spread.others.begin(), spread.others.end(), random);
    spreads.push_back(spread);
  }
  const bool copies = collective == Collective::all_gather || collective == Collective::broadcast;
  const auto done = [&](const Spread& spread) {
    if (spread.others.empty()) return true;
    if (copies) return false;
    return std::none_of(spread.others.begin(), spread.others.end(),
                        [&](int rank) { return wants(schedule.shape, spread.chunk, rank); });
  };
  while (true) {
    std::erase_if(spreads, done);
    if (spreads.empty()) return schedule;
    Spread& spread = spreads[random() % spreads.size()];
    // What is not copied goes on from where it came last.
    const int from = copies ? spread.holders[random() % spread.holders.size()] : spread.holders.back();
    schedule.transfers.push_back({spread.chunk, from, spread.others.back(), int(random() % 3)});
    spread.holders.push_back(spread.others.back());
    spread.others.pop_back();
  }
}

LowerOptions random_options(std::mt19937& random) {
  return {.name = "lowered",
          .instances = 1 + int(random() % 2),
          .channels = 1 + int(random() % 3),
          .merges = random() % 2 == 0,
          .reuses_scratch = random() % 2 == 0};
}

void expect_right(const Result<Program>& program, Collective collective) {
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->shape.collective, collective);
  const CheckReport report = check(*program);
  EXPECT_TRUE(report.ok()) << name_of(collective) << ": " << report.violation->to_string();
}

TEST(Lower, EveryScheduleBecomesARightProgramWhateverItsOptions) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const int ranks = 1 + int(random() % 7);
    const int chunks = 1 + int(random() % 3);
    for (const Collective collective : {Collective::all_gather, Collective::broadcast, Collective::gather,
                                        Collective::scatter, Collective::all_to_all}) {
      const Schedule schedule = random_schedule(collective, ranks, chunks, random);
      ASSERT_TRUE(check_schedule(schedule)) << check_schedule(schedule).error().message;
      expect_right(lower(schedule, random_options(random)), collective);
    }
  }
}

TEST(Lower, BackwardsCopiesBecomeReductions) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const int ranks = 1 + int(random() % 7);
    const int chunks = 1 + int(random() % 3);
    expect_right(lower_reversed(random_schedule(Collective::all_gather, ranks, chunks, random), random_options(random)),
                 Collective::reduce_scatter);
    expect_right(lower_reversed(random_schedule(Collective::broadcast, ranks, chunks, random), random_options(random)),
                 Collective::reduce);
    expect_right(lower_reversed(random_schedule(Collective::scatter, ranks, chunks, random), random_options(random)),
                 Collective::gather);
  }
}

TEST(Lower, BothWaysMakeAnAllReduce) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const int ranks = 1 + int(random() % 7);
    const int chunks = 1 + int(random() % 3);
    for (const Collective collective : {Collective::all_gather, Collective::broadcast}) {
      const Schedule reduction = random_schedule(collective, ranks, chunks, random);
      Schedule distribution = random_schedule(collective, ranks, chunks, random);
      while (distribution.shape.root != reduction.shape.root)
        distribution = random_schedule(collective, ranks, chunks, random);
      expect_right(lower_all_reduce(reduction, distribution, random_options(random)), Collective::all_reduce);
    }
  }
}

/// Ranks 0 to 11 as digits of 2, 2 and 3, of which some move.
Translations random_translations(std::mt19937& random) {
  return Translations({{1, 2, random() % 2 == 0}, {2, 2, random() % 2 == 0}, {4, 3, true}});
}

/// What a random schedule does with the chunks that start at homes, everyone does.
Schedule symmetric_schedule(Collective collective, const Translations& symmetry, std::mt19937& random) {
  Schedule schedule = random_schedule(collective, 12, 1 + int(random() % 2), random);
  std::erase_if(schedule.transfers, [&](const Transfer& transfer) {
    return symmetry.offset_of(home_of(schedule.shape, transfer.chunk)) != 0;
  });
  schedule.symmetry = symmetry;
  return schedule;
}

TEST(Lower, PartsThatAreMovedToOtherRanksMakeARightProgram) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const Translations symmetry = random_translations(random);
    LowerOptions options = random_options(random);
    options.most_ranks_written_out = 0;
    const Schedule gather = symmetric_schedule(Collective::all_gather, symmetry, random);
    for (const Schedule& schedule : {gather, symmetric_schedule(Collective::all_to_all, symmetry, random)}) {
      ASSERT_TRUE(check_schedule(schedule)) << check_schedule(schedule).error().message;
      ASSERT_TRUE(check_schedule(written_out(schedule))) << check_schedule(written_out(schedule)).error().message;
      const auto program = lower(schedule, options);
      expect_right(program, schedule.shape.collective);
      EXPECT_EQ(program->symmetry, symmetry);
    }
    expect_right(lower_reversed(gather, options), Collective::reduce_scatter);
    expect_right(lower_all_reduce(gather, gather, options), Collective::all_reduce);
    options.most_ranks_written_out = 12;
    expect_right(lower(gather, options), Collective::all_gather);
  }
}

TEST(Lower, ChunksThatCanGoTogetherAreOneStep) {
  const Schedule schedule{"two blocks at once",
                          {Collective::all_gather, 3, 0, 2},
                          {{0, 0, 1},
                           {1, 0, 1},
                           {2, 1, 2},
                           {3, 1, 2},
                           {4, 2, 0},
                           {5, 2, 0},
                           {0, 1, 2},
                           {1, 1, 2},
                           {2, 2, 0},
                           {3, 2, 0},
                           {4, 0, 1},
                           {5, 0, 1}}};
  ASSERT_TRUE(check_schedule(schedule)) << check_schedule(schedule).error().message;
  const auto steps = [&](bool merges) {
    const Program program = lower(schedule, {.name = "merged", .merges = merges}).value();
    EXPECT_TRUE(check(program).ok());
    std::size_t count = 0;
    for (const Worker& worker : program.part(0).workers) count += worker.steps.size();
    return count;
  };
  EXPECT_EQ(steps(false), 9U) << "four sends, four receives, its own copy";
  EXPECT_EQ(steps(true), 5U);
}

TEST(Lower, ScratchIsUsedAgain) {
  // Rank 1 only passes on: rank 0's blocks for rank 2, one after the other.
  Schedule schedule{"a relay", {Collective::all_to_all, 3, 0, 8}, {}};
  for (int piece = 0; piece < 8; ++piece) {
    schedule.transfers.push_back({2 * 8 + piece, 0, 1});
    schedule.transfers.push_back({2 * 8 + piece, 1, 2});
  }
  for (const int pair : {0 * 3 + 1, 1 * 3 + 0, 1 * 3 + 2, 2 * 3 + 0, 2 * 3 + 1})
    for (int piece = 0; piece < 8; ++piece) schedule.transfers.push_back({pair * 8 + piece, pair / 3, pair % 3});
  const auto scratch = [&](bool reuses) {
    const Program program = lower(schedule, {.name = "relay", .reuses_scratch = reuses}).value();
    EXPECT_TRUE(check(program).ok());
    return program.part(1).scratch_chunks;
  };
  EXPECT_EQ(scratch(false), 8);
  EXPECT_EQ(scratch(true), 1);
}

TEST(Lower, RefusesWhatHasNoReverse) {
  std::mt19937 random(4);
  const auto program = lower_reversed(random_schedule(Collective::all_to_all, 3, 1, random), {.name = "x"});
  ASSERT_FALSE(program);
  EXPECT_NE(program.error().message.find("all_to_all backwards"), std::string::npos);
  EXPECT_FALSE(lower(random_schedule(Collective::broadcast, 3, 1, random), {.name = "x", .channels = 0}));
}

TEST(Schedule, OnlyChunksOfHomesAreTold) {
  const Schedule schedule{"x", {Collective::all_gather, 2, 0, 1}, {{1, 1, 0}, {0, 0, 1}}, Translations({{1, 2, true}})};
  EXPECT_NE(check_schedule(schedule).error().message.find("it does not start at a home"), std::string::npos);
}

TEST(Schedule, BrokenPromisesAreNamed) {
  Schedule schedule{"a person", {Collective::broadcast, 3, 0, 1}, {{0, 1, 2, 0}}};
  EXPECT_NE(check_schedule(schedule).error().message.find("does not have it yet"), std::string::npos);
  schedule.transfers = {{0, 0, 1, 0}, {0, 0, 1, 0}};
  EXPECT_NE(check_schedule(schedule).error().message.find("has it already"), std::string::npos);
  schedule.transfers = {{0, 0, 1, 0}};
  EXPECT_NE(check_schedule(schedule).error().message.find("never comes to rank 2"), std::string::npos);
  schedule.transfers = {{0, 0, 3, 0}};
  EXPECT_NE(check_schedule(schedule).error().message.find("no such rank"), std::string::npos);
}

}  // namespace
}  // namespace tutti
