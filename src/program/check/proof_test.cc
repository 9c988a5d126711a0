#include "program/check/proof.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "program/program_test_kit.hpp"

namespace tutti {
namespace {

/// A ring in which one rank, or every rank, stores a block in the wrong place.
Program wrong_ring(int ranks, int wrong_rank) {
  Program program = ring_all_gather(ranks);
  program.part = [right = program.part, ranks, wrong_rank](int rank) {
    RankProgram part = right(rank);
    if (wrong_rank < 0 || rank == wrong_rank) part.workers[0].steps[1].targets[0].first = wrap(rank + 1, ranks);
    return part;
  };
  return program;
}

TEST(Prove, RefusesAProgramThatIsWrongAndNamesProgramRankWorkerAndStep) {
  const auto proven = prove(wrong_ring(4, 2), 0);
  ASSERT_FALSE(proven);
  EXPECT_EQ(proven.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(proven.error().message.find("program ring of all_gather over 4 ranks is wrong"), std::string::npos)
      << proven.error().message;
  EXPECT_NE(proven.error().message.find("rank 2, worker 0, step 1"), std::string::npos) << proven.error().message;
  EXPECT_EQ(proven.error().peer, 2);
  EXPECT_EQ(proven.error().step, "worker 0 step 1");
}

TEST(Prove, BelievesNoClaimOfSymmetry) {
  Program every_rank_wrong = wrong_ring(4, -1);
  every_rank_wrong.likeness.translations = Translations({{1, 4, true}});
  EXPECT_FALSE(prove(every_rank_wrong, 0));

  Program one_rank_wrong = wrong_ring(4, 2);
  one_rank_wrong.likeness.translations = Translations({{1, 4, true}});
  EXPECT_FALSE(prove(one_rank_wrong, 2)) << "the rank that would run the wrong part";
  EXPECT_TRUE(prove(one_rank_wrong, 1)) << "its own part is right, and the others' are theirs to prove";

  Program senseless = wrong_ring(4, 2);
  senseless.likeness.translations = Translations({{1, 3, true}});
  EXPECT_FALSE(prove(senseless, 1));
  senseless.likeness = {Translations({{1, 4, true}}), {0, 1, 1, 2}};
  EXPECT_FALSE(prove(senseless, 1));
}

TEST(Prove, GoesByRankZeroAboveTwoHundredAndFiftySixRanks) {
  EXPECT_TRUE(prove(ring_all_gather(512), 100));
  const auto wrong = prove(wrong_ring(512, -1), 100);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("over 512 ranks is wrong"), std::string::npos) << wrong.error().message;
}

TEST(Prove, LooksAtAllRanksAboveTwoHundredAndFiftySixIfTheyAreNotAlike) {
  EXPECT_TRUE(prove(chain_broadcast(1000, 4), 7));
  const auto wrong = prove(wrong_ring(300, 299), 0);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("rank 299"), std::string::npos) << wrong.error().message;
}

TEST(Prove, RefusesWhatIsTooLargeToLookAtAndSaysSo) {
  const auto huge = prove(chain_broadcast(1000, 5000), 7);
  ASSERT_FALSE(huge);
  EXPECT_NE(huge.error().message.find("is too large to be proven"), std::string::npos) << huge.error().message;
}

TEST(Proofs, AreMadeOncePerKey) {
  Proofs proofs;
  for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(proofs.prove_once("ring of 4", ring_all_gather(4), rank));
  EXPECT_EQ(proofs.made(), 1U);
  EXPECT_TRUE(proofs.prove_once("ring of 5", ring_all_gather(5), 0));
  EXPECT_EQ(proofs.made(), 2U);
}

TEST(Proofs, RememberNoFailure) {
  Proofs proofs;
  EXPECT_FALSE(proofs.prove_once("ring", wrong_ring(4, 1), 0));
  EXPECT_FALSE(proofs.prove_once("ring", wrong_ring(4, 1), 0));
  EXPECT_EQ(proofs.made(), 0U);
  EXPECT_TRUE(proofs.prove_once("ring", ring_all_gather(4), 0));
}

TEST(Proofs, AreMadeOnceByThreadsThatAskAtTheSameTime) {
  Proofs proofs;
  std::atomic<int> parts_of_rank_5 = 0;
  Program program = ring_all_gather(16);
  program.part = [right = program.part, &parts_of_rank_5](int rank) {
    if (rank == 5) ++parts_of_rank_5;
    return right(rank);
  };
  std::atomic<int> passed = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 8; ++rank)
    threads.emplace_back([&, rank] {
      if (proofs.prove_once("ring", program, rank)) ++passed;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 8);
  EXPECT_EQ(proofs.made(), 1U);
  EXPECT_EQ(parts_of_rank_5, 1);
}

TEST(Proofs, RefuseTheRankWhosePartIsWrongThoughTheRestIsProven) {
  Proofs proofs;
  Program program = wrong_ring(4, 2);
  program.likeness.translations = Translations({{1, 4, true}});
  EXPECT_TRUE(proofs.prove_once("ring", program, 0));
  EXPECT_FALSE(proofs.prove_once("ring", program, 2));
}

struct BuiltIn {
  std::string name;
  int hosts;
  Program program;
};

std::vector<BuiltIn> built_ins(const Layout& layout) {
  std::vector<BuiltIn> all;
  for (const Algorithm& algorithm : algorithms())
    for (int number = 0; number < kCollectives; ++number) {
      const auto collective = static_cast<Collective>(number);
      if (!algorithm.supports(collective, layout)) continue;
      all.push_back({std::string(algorithm.name) + " " + std::string(name_of(collective)), layout.hosts(),
                     make_program(algorithm.name, collective, layout, {.root = layout.ranks() / 3}).value()});
    }
  return all;
}

void expect_proven_for_every_rank(const Layout& layout) {
  for (const BuiltIn& built_in : built_ins(layout))
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      const auto proven = prove(built_in.program, rank);
      ASSERT_TRUE(proven) << built_in.name << ": " << proven.error().message;
    }
}

TEST(BuiltIns, AreProvenForEveryRank) {
  for (const int ranks : {1, 2, 3, 5, 8, 12, 17})
    for (const int per_host : {ranks, 1, 2, 4}) expect_proven_for_every_rank(Layout::blocks(ranks, per_host));
}

TEST(BuiltIns, AreProvenWhereRanksAreDealtRoundRobinOverHostsOfTwoLeaves) {
  Layout layout;
  for (int rank = 0; rank < 12; ++rank) layout.host_of.push_back(rank % 4);
  layout.leaf_of_host = {0, 1, 0, 1};
  expect_proven_for_every_rank(layout);
}

/// So that a claim is not given up unnoticed, and the time with it.
TEST(BuiltIns, AreAlikeOnAllRanksButForRootsTreesAndHalves) {
  std::vector<BuiltIn> all = built_ins(Layout::one_host(16));
  for (const BuiltIn& across_hosts : built_ins(Layout::blocks(16, 4))) all.push_back(across_hosts);
  for (const BuiltIn& built_in : all) {
    const bool on_one_host = built_in.name.starts_with("two_level") && built_in.hosts == 1;
    if (on_one_host) continue;
    const bool differs = has_root(built_in.program.shape.collective) || built_in.name.starts_with("recursive") ||
                         built_in.name.starts_with("halving") || built_in.name.starts_with("double_tree") ||
                         built_in.name.starts_with("binomial");
    EXPECT_EQ(built_in.program.likeness.translations.order() > 1, !differs) << built_in.name;
  }
}

TEST(BuiltIns, AreProvenForAThousandRanks) {
  for (const BuiltIn& built_in : built_ins(Layout::blocks(1024, 8))) {
    if (built_in.program.likeness.translations.order() < 2) continue;
    const auto proven = prove(built_in.program, 777);
    EXPECT_TRUE(proven) << built_in.name << ": " << proven.error().message;
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// Milliseconds that this thread has run.
double thread_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

/// micro_bench (proof) shows the times; here, that none is far from what it should be. The best of several runs, and
/// five times the millisecond that is aimed at: the machine may be busy.
TEST(BuiltIns, AreProvenInAMillisecondAt64Ranks) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes its own time";
  for (const int per_host : {64, 8})
    for (const BuiltIn& built_in : built_ins(Layout::blocks(64, per_host))) {
      double best = 1e9;
      for (int round = 0; round < 5; ++round) {
        const double start = thread_milliseconds();
        ASSERT_TRUE(prove(built_in.program, 5));
        best = std::min(best, thread_milliseconds() - start);
      }
      EXPECT_LT(best, 5.0) << built_in.name;
    }
}

}  // namespace
}  // namespace tutti
