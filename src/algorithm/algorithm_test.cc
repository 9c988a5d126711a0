#include "algorithm/algorithm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "program/check/check.hpp"

namespace tutti {
namespace {

constexpr Collective kEveryCollective[] = {
    Collective::all_reduce,     Collective::reduce,        Collective::broadcast, Collective::all_gather,
    Collective::reduce_scatter, Collective::all_to_all,    Collective::gather,    Collective::scatter,
    Collective::barrier,        Collective::point_to_point};

std::vector<int> roots_of(Collective collective, int ranks) {
  if (!has_root(collective)) return {0};
  std::set<int> roots{0, ranks / 2, ranks - 1};
  for (int root = 0; ranks <= 8 && root < ranks; ++root) roots.insert(root);
  return {roots.begin(), roots.end()};
}

std::vector<Layout> layouts_of(int ranks) {
  std::vector<Layout> layouts{Layout::one_host(ranks)};
  for (int per_host : {1, 2, 4, 8})
    if (per_host < ranks) layouts.push_back(Layout::blocks(ranks, per_host));
  return layouts;
}

/// True where an algorithm makes the same program on any layout it supports, so that one of them is proof enough.
bool ignores_layout(std::string_view name) { return name != "ring" && name != "double_tree" && name != "two_level"; }

void expect_correct(const Algorithm& algorithm, Collective collective, const Layout& layout,
                    const AlgorithmOptions& options) {
  const auto program = make_program(algorithm.name, collective, layout, options);
  ASSERT_TRUE(program) << program.error().message;
  const CheckReport report = check(*program);
  EXPECT_TRUE(report.ok()) << algorithm.name << " " << name_of(collective) << ", " << layout.ranks() << " ranks on "
                           << layout.hosts() << " hosts, root " << options.root << ", " << options.instances
                           << " instances: " << report.violation->to_string();
  if (!report.ok() || !reduces(collective)) return;
  EXPECT_TRUE(report.rank_order || !algorithm.rank_order) << algorithm.name << " " << name_of(collective);
  EXPECT_TRUE(report.ordered_operands || !algorithm.ordered_operands) << algorithm.name << " " << name_of(collective);
}

void expect_correct_everywhere(const Algorithm& algorithm, const std::vector<Layout>& layouts) {
  for (Collective collective : kEveryCollective)
    for (const Layout& layout : layouts) {
      if (!algorithm.supports(collective, layout)) continue;
      for (int root : roots_of(collective, layout.ranks()))
        expect_correct(algorithm, collective, layout, {.root = root});
      if (ignores_layout(algorithm.name)) break;
    }
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, IsCorrectOn1To16Ranks) {
  for (int ranks = 1; ranks <= 16; ++ranks) expect_correct_everywhere(GetParam(), layouts_of(ranks));
}

TEST_P(EveryAlgorithm, IsCorrectOnUpTo64Ranks) {
  for (int ranks : {17, 24, 31, 32, 33, 48, 63, 64}) {
    const int per_host = ranks % 8 == 0 ? 8 : ranks % 3 == 0 ? 3 : 1;
    expect_correct_everywhere(GetParam(), {Layout::blocks(ranks, per_host), Layout::one_host(ranks)});
  }
}

TEST_P(EveryAlgorithm, IsCorrectWhereRanksAreDealtRoundRobinOverHostsOfTwoLeaves) {
  for (int hosts : {2, 3, 4}) {
    Layout layout;
    for (int rank = 0; rank < 3 * hosts; ++rank) layout.host_of.push_back(rank % hosts);
    for (int host = 0; host < hosts; ++host) layout.leaf_of_host.push_back(host % 2);
    expect_correct_everywhere(GetParam(), {layout});
  }
}

TEST_P(EveryAlgorithm, IsCorrectInSeveralInstances) {
  for (int ranks : {1, 2, 3, 4, 6, 8})
    for (const Layout& layout : {Layout::one_host(ranks), Layout::blocks(ranks, 2)})
      for (Collective collective : kEveryCollective)
        if (GetParam().supports(collective, layout))
          expect_correct(GetParam(), collective, layout, {.root = ranks - 1, .instances = 3});
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& name) { return std::string(name.param.name); });

int steps_of(const RankProgram& part) {
  int steps = 0;
  for (const Worker& worker : part.workers) steps += static_cast<int>(worker.steps.size());
  return steps;
}

TEST(Oneshot, AllReducesTwoRanksInOneWorkerOfTwoStepsWithoutScratch) {
  const auto program = make_program("oneshot", Collective::all_reduce, Layout::one_host(2));
  ASSERT_TRUE(program);
  for (int rank : {0, 1}) {
    const RankProgram part = program->part(rank);
    EXPECT_EQ(part.workers.size(), 1u);
    EXPECT_EQ(steps_of(part), 2);
    EXPECT_EQ(part.scratch_chunks, 0);
  }
}

TEST(Oneshot, SendsToTheNextRankFirstSoThatNobodyIsEverybodysFirstTarget) {
  const auto program = make_program("oneshot", Collective::all_to_all, Layout::one_host(8));
  ASSERT_TRUE(program);
  for (int rank = 0; rank < 8; ++rank)
    for (int distance = 1; distance < 8; ++distance)
      EXPECT_EQ(program->part(rank).workers[static_cast<std::size_t>(distance) - 1].send_peer, (rank + distance) % 8);
}

TEST(RecursiveDoubling, TakesLog2Rounds) {
  const auto program = make_program("recursive_doubling", Collective::all_reduce, Layout::one_host(64));
  ASSERT_TRUE(program);
  EXPECT_EQ(program->part(17).workers.size(), 6u);
  EXPECT_EQ(steps_of(program->part(17)), 12);
}

TEST(Bruck, SendsOneMessagePerRound) {
  for (Collective collective : {Collective::all_gather, Collective::all_to_all}) {
    const auto program = make_program("bruck", collective, Layout::one_host(33));
    ASSERT_TRUE(program);
    int sent = 0;
    for (const Worker& worker : program->part(5).workers)
      for (const Step& step : worker.steps) sent += sends(step.kind);
    EXPECT_EQ(sent, 6) << name_of(collective);
  }
}

TEST(Binomial, IsNoDeeperThanLog2FromAnyRoot) {
  for (int root = 0; root < 13; ++root) {
    const auto program = make_program("binomial", Collective::broadcast, Layout::one_host(13), {.root = root});
    ASSERT_TRUE(program);
    for (int rank = 0; rank < 13; ++rank) {
      int depth = 0;
      for (int at = rank; at != root; ++depth) {
        const auto workers = program->part(at).workers;
        at = std::find_if(workers.begin(), workers.end(), [](const Worker& w) {
               return w.recv_peer != kNobody;
             })->recv_peer;
      }
      EXPECT_LE(depth, 4);
    }
  }
}

/// Children a rank receives from on each of the two channels of a double tree's reduction.
std::pair<int, int> children_in_both_trees(const RankProgram& part) {
  std::pair<int, int> children;
  for (const Worker& worker : part.workers)
    for (const Step& step : worker.steps)
      if (receives(step.kind) && reduces(step.kind)) ++(worker.channel == 0 ? children.first : children.second);
  return children;
}

TEST(DoubleTree, MakesEachRankInnerInOneTreeOnlyButTheTwoRoots) {
  for (int ranks : {4, 5, 8, 13, 31, 32, 64}) {
    const auto program = make_program("double_tree", Collective::all_reduce, Layout::one_host(ranks));
    ASSERT_TRUE(program);
    int inner_in_both = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto [first, second] = children_in_both_trees(program->part(rank));
      EXPECT_LE(first, 2);
      EXPECT_LE(second, 2);
      inner_in_both += first > 0 && second > 0;
    }
    EXPECT_LE(inner_in_both, 1) << ranks << " ranks";
  }
}

TEST(TwoLevel, CrossesHostsOnlyAlongRails) {
  const Layout layout = Layout::blocks(24, 4);
  for (Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                Collective::broadcast, Collective::reduce, Collective::all_to_all}) {
    const auto program = make_program("two_level", collective, layout, {.root = 5});
    ASSERT_TRUE(program);
    for (int rank = 0; rank < 24; ++rank)
      for (const Worker& worker : program->part(rank).workers) {
        const bool leaves_host = worker.send_peer != kNobody && worker.send_peer / 4 != rank / 4;
        EXPECT_TRUE(!leaves_host || worker.send_peer % 4 == rank % 4) << name_of(collective);
      }
  }
}

TEST(TwoLevel, IsNotForUnequalHosts) {
  const auto program = make_program("two_level", Collective::all_reduce, Layout::blocks(7, 4));
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, ErrorCode::unsupported);
  EXPECT_EQ(program.error().message, "two_level does no all_reduce over 7 ranks on 2 hosts");
}

TEST(Direct, StaysOnOneHost) {
  for (std::string_view name : {"direct_pull", "direct_push", "direct_split", "direct_oneshot"})
    for (Collective collective : kEveryCollective)
      EXPECT_FALSE(find_algorithm(name)->supports(collective, Layout::blocks(2, 1))) << name;
}

TEST(Direct, PullWritesNoPeersMemory) {
  for (Collective collective : kEveryCollective) {
    const auto program = make_program("direct_pull", collective, Layout::one_host(2));
    if (!program) continue;
    for (int rank : {0, 1})
      for (const Worker& worker : program->part(rank).workers)
        for (const Step& step : worker.steps)
          for (const Cells& target : step.targets) EXPECT_EQ(target.rank, kSelf) << name_of(collective);
  }
}

TEST(Programs, MakeOneRanksPartOf1024WithoutTheOthers) {
  const Layout layout = Layout::blocks(1024, 8);
  for (std::string_view name : {"ring", "recursive_doubling", "halving_doubling", "double_tree", "two_level"}) {
    const auto program = make_program(name, Collective::all_reduce, layout);
    ASSERT_TRUE(program) << name;
    EXPECT_GT(steps_of(program->part(1023)), 0) << name;
  }
}

TEST(MakeProgram, ListsTheKnownNamesWhenGivenAnother) {
  const auto program = make_program("rong", Collective::all_reduce, Layout::one_host(2));
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(program.error().message.find("no algorithm is named \"rong\"; there are oneshot, direct_pull, "), 0u);
  for (const Algorithm& algorithm : algorithms())
    EXPECT_NE(program.error().message.find(algorithm.name), std::string::npos);
}

TEST(MakeProgram, RefusesMoreInstancesThanWorkersSufficeFor) {
  const auto program = make_program("oneshot", Collective::all_gather, Layout::one_host(64), {.instances = 16});
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().message,
            "16 instances of oneshot over 64 ranks need 1024 workers on rank 0, more than 512");
}

TEST(MakeProgram, NamesABadRootOrNumberOfInstances) {
  const Layout layout = Layout::one_host(4);
  EXPECT_EQ(make_program("ring", Collective::broadcast, layout, {.root = 4}).error().message,
            "root is 4, expected 0 to 3");
  EXPECT_EQ(make_program("ring", Collective::all_reduce, layout, {.instances = 0}).error().message,
            "instances is 0, expected 1 to 16");
}

}  // namespace
}  // namespace tutti
