// Plans as they are compiled: links, guards, scratch, and what one-sided programs touch.
#include "engine/plan.hpp"

#include <gtest/gtest.h>

#include "algorithm/algorithm.hpp"
#include "engine/fake_ranks_test_kit.hpp"
#include "program/check/check_programs_test_kit.hpp"

namespace tutti {
namespace {

using namespace check_programs;

std::unique_ptr<Plan> compiled(const Program& program, int rank, bool in_place, FakeRanks& ranks) {
  auto plan = compile(program, rank, in_place, ranks.links(rank));
  EXPECT_TRUE(plan.has_value());
  return plan ? std::move(*plan) : nullptr;
}

/// A program of which only rank 0's part is of interest.
Program program_of(Shape shape, const RankProgram& first) {
  std::vector<RankProgram> parts(static_cast<std::size_t>(shape.ranks));
  parts[0] = first;
  return make_flat("made", shape, parts);
}

TEST(Plan, HasTheLinksOfItsWorkers) {
  FakeRanks ranks(3);
  const Program program = program_of({Collective::all_reduce, 3, 0, 1}, part({{2, 1, 4, {}}, alone({})}));
  const auto plan = compiled(program, 0, false, ranks);
  ASSERT_EQ(plan->workers.size(), 2u);
  EXPECT_EQ(plan->workers[0].send, &ranks.link(0, 2, 4).send_end());
  EXPECT_EQ(plan->workers[0].recv, &ranks.link(1, 0, 4).recv_end());
  EXPECT_EQ(plan->workers[0].send_rank, 2);
  EXPECT_EQ(plan->workers[0].recv_rank, 1);
  EXPECT_EQ(plan->workers[0].channel, 4);
  EXPECT_EQ(plan->workers[1].send, nullptr);
  EXPECT_EQ(plan->workers[1].recv, nullptr);
  EXPECT_EQ(plan->link_window, 2u * 4096);
}

TEST(Plan, NamesRanksAsTheCommunicatorDoes) {
  FakeRanks ranks(4);
  const Program program = make_flat("sends", {Collective::point_to_point, 2, 0, 1},
                                    {part({between(kNobody, 1, {send(input(0))})}), part({})});
  const auto plan = compile(program, 0, false, ranks.links(3), {3, 2});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ((*plan)->workers[0].send, &ranks.link(3, 2).send_end());
  EXPECT_EQ((*plan)->workers[0].send_rank, 2);
  EXPECT_EQ((*plan)->workers[0].recv_rank, kNobody);
  EXPECT_EQ((*plan)->rank, 0);
}

TEST(Plan, IsNotMadeIfALinkIsRefused) {
  FakeRanks ranks(2);
  ranks.send_refusal = fail(ErrorCode::unsupported, "no way there").value();
  EXPECT_EQ(compile(exchange(), 0, false, ranks.links(0)).error().message, "no way there");
  ranks.send_refusal.reset();
  ranks.recv_refusal = fail(ErrorCode::unsupported, "no way back").value();
  EXPECT_EQ(compile(exchange(), 0, false, ranks.links(0)).error().message, "no way back");
}

TEST(Plan, GuardsMemoryThatIsSentAndThenWritten) {
  FakeRanks ranks(2);
  const auto apart = compiled(exchange(), 0, false, ranks);
  EXPECT_TRUE(apart->workers[0].steps[1].guards.empty());
  EXPECT_FALSE(apart->workers[0].steps[0].copies);
  EXPECT_FALSE(apart->workers[0].steps[1].conditional);
  const auto in_place = compiled(exchange(), 0, true, ranks);
  EXPECT_EQ(in_place->workers[0].steps[1].guards, (std::vector<Dependency>{{0, 0}}));
  EXPECT_TRUE(in_place->workers[0].steps[0].copies) << "the peer may wait for the same";
  EXPECT_TRUE(in_place->workers[0].steps[1].conditional);
  EXPECT_FALSE(in_place->workers[0].steps[0].conditional);
}

TEST(Plan, GuardsWhatIsForwardedInItsTarget) {
  FakeRanks ranks(3);
  const Program program =
      program_of({Collective::broadcast, 3, 0, 2},
                 part({between(1, 2, {recv_copy_send(output(0, 2)), recv_reduce_copy_send(input(0), output(1))}),
                       alone({copy(input(0, 2), output(0, 2)), copy(input(0), scratch(0))})},
                      1));
  const auto plan = compiled(program, 0, false, ranks);
  const auto& forwards = plan->workers[0].steps;
  EXPECT_EQ(forwards[0].guards, (std::vector<Dependency>{{0, 1}})) << "not by itself";
  EXPECT_EQ(forwards[1].guards, (std::vector<Dependency>{{0, 0}}));
  EXPECT_EQ(plan->workers[1].steps[0].guards, (std::vector<Dependency>{{0, 0}, {0, 1}})) << "each once";
  EXPECT_TRUE(plan->workers[1].steps[1].guards.empty());
}

TEST(Plan, KnowsWhichBlockIsBothInputAndOutputInPlace) {
  FakeRanks ranks(3);
  const auto guards_of = [&](Collective collective, const Cells& sent, const Cells& written) {
    std::vector<RankProgram> parts(3);
    parts[1] = part({between(kNobody, 2, {send(sent)}), alone({copy(scratch(0), written)})}, 1);
    const auto plan = compiled(make_flat("made", {collective, 3, 0, 2}, parts), 1, true, ranks);
    return plan->workers[1].steps[0].guards.size();
  };
  for (const Collective gathers : {Collective::all_gather, Collective::gather}) {
    EXPECT_EQ(guards_of(gathers, input(1), output(3)), 1u) << name_of(gathers);
    EXPECT_EQ(guards_of(gathers, input(1), output(1)), 0u) << name_of(gathers);
  }
  for (const Collective scatters : {Collective::reduce_scatter, Collective::scatter}) {
    EXPECT_EQ(guards_of(scatters, input(3), output(1)), 1u) << name_of(scatters);
    EXPECT_EQ(guards_of(scatters, input(1), output(1)), 0u) << name_of(scatters);
  }
  EXPECT_EQ(guards_of(Collective::all_reduce, input(1), output(1)), 1u);
  EXPECT_EQ(guards_of(Collective::all_reduce, scratch(0), output(0)), 0u);
}

TEST(Plan, SendsFromATemporaryWhatIsForwardedAndNotStored) {
  FakeRanks ranks(3);
  const auto plan = compiled(ring_all_reduce(3), 0, false, ranks);
  const auto& steps = plan->workers[0].steps;
  ASSERT_EQ(steps[1].step.kind, StepKind::recv_reduce_send);
  EXPECT_TRUE(steps[1].forwards_unstored && steps[1].copies && steps[1].conditional);
  ASSERT_EQ(steps[2].step.kind, StepKind::recv_reduce_copy_send);
  EXPECT_FALSE(steps[2].forwards_unstored);
}

TEST(Plan, CountsTheChunksOfAllItsCells) {
  FakeRanks ranks(2);
  const Program program = program_of({Collective::all_reduce, 2, 0, 4},
                                     part({alone({copy(input(0, 3), output(0, 3)), copy(input(3), output(3))}),
                                           between(kNobody, 1, {after(send(input(0, 2)), 0, 0)})}));
  const auto plan = compiled(program, 0, false, ranks);
  EXPECT_EQ(plan->workers[0].steps[1].first_chunk, 6);
  EXPECT_EQ(plan->workers[1].steps[0].first_chunk, 8);
  EXPECT_EQ(plan->chunks, 10);
  EXPECT_TRUE(plan->workers[1].steps[0].conditional) << "it stands after another";
}

TEST(Plan, KnowsWhichPeersAOneSidedProgramTouches) {
  FakeRanks ranks(4);
  const RankProgram first = part(
      {alone({copy(at(2, input(0)), output(0)), copy(at(0, input(0)), at(2, scratch(0))), wait(3), signal(1)})}, 1);
  const RankProgram waits = part({alone({wait(0)})}, 5);
  const Program program = make_flat("touches", {Collective::broadcast, 4, 0, 1}, {first, waits, waits, waits});
  const auto plan = compiled(program, 0, false, ranks);
  EXPECT_EQ(plan->touched, (std::vector<int>{2}));
  EXPECT_EQ(plan->neighbours, (std::vector<int>{1, 2, 3}));
  EXPECT_TRUE(plan->one_sided && plan->reaches);
  EXPECT_EQ(plan->stage_chunks, 5) << "the most of any rank";
  EXPECT_FALSE(plan->all_hear);
  const auto& steps = plan->workers[0].steps;
  EXPECT_EQ(steps[1].step.sources[0].rank, kSelf) << "its own number";
  for (const PlanStep& step : steps) EXPECT_TRUE(step.conditional && !step.pushes);
}

TEST(Plan, KnowsWhetherEveryRankHearsOfAll) {
  FakeRanks ranks(3);
  const auto all_hear = [&](const std::vector<std::vector<int>>& heard) {
    std::vector<RankProgram> parts;
    for (const std::vector<int>& peers : heard) {
      parts.push_back(part({alone({})}));
      for (const int peer : peers) parts.back().workers[0].steps.push_back(wait(peer));
    }
    return compiled(make_flat("hears", {Collective::barrier, 3, 0, 1}, parts), 0, false, ranks)->all_hear;
  };
  EXPECT_TRUE(all_hear({{1, 2}, {0, 2}, {1, 0}}));
  EXPECT_FALSE(all_hear({{1}, {0, 2}, {1, 0}}));
  EXPECT_FALSE(all_hear({{1, 2}, {0, 2}, {1}}));
}

TEST(Plan, PushesIfItWritesBuffersOfPeers) {
  FakeRanks ranks(3);
  const auto plan = compiled(direct_all_reduce(3), 1, false, ranks);
  EXPECT_TRUE(plan->workers[0].steps[0].pushes);
  EXPECT_FALSE(plan->workers[0].steps[1].pushes);
  EXPECT_TRUE(plan->all_hear);
  EXPECT_EQ(plan->touched, (std::vector<int>{0, 2}));
}

TEST(Plan, ReachesNoBuffersIfItTouchesOnlyScratch) {
  FakeRanks ranks(3);
  const auto program = make_program("staged", Collective::all_reduce, Layout::one_host(3));
  const auto plan = compiled(*program, 0, false, ranks);
  EXPECT_FALSE(plan->reaches);
  EXPECT_EQ(plan->stage_chunks, 3);
}

TEST(Plan, LearnsTheSizeOfScratchFromWhatItMeets) {
  FakeRanks ranks(2);
  // The first step can learn only after the second has.
  const Program program = program_of({Collective::all_gather, 2, 0, 2},
                                     part({alone({copy(scratch(0, 2), scratch(2, 2)), copy(output(1, 2), scratch(0, 2)),
                                                  copy(at(1, input(1)), scratch(4)), wait(1)})},
                                          5));
  const auto plan = compiled(program, 0, false, ranks);
  EXPECT_TRUE(plan->fits_uneven());
  EXPECT_EQ(plan->scratch_like[2], output(1));
  EXPECT_EQ(plan->scratch_like[3], output(2));
  EXPECT_EQ(plan->scratch_like[4], at(1, input(1)));
}

TEST(Plan, DoesNotFitUnevenBlocksIfScratchMeetsNothing) {
  FakeRanks ranks(2);
  const Program program =
      program_of({Collective::all_gather, 2, 0, 1}, part({between(1, 1, {recv(scratch(0)), send(scratch(0))})}, 1));
  EXPECT_FALSE(compiled(program, 0, false, ranks)->fits_uneven());
}

}  // namespace
}  // namespace tutti
