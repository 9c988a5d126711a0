// Plans bound to the counts of a call: tiles, extents, and whether the steps make a straight line.
#include "engine/bound_plan.hpp"

#include <gtest/gtest.h>

#include "algorithm/algorithm.hpp"
#include "engine/fake_ranks_test_kit.hpp"
#include "program/check/check_programs_test_kit.hpp"

namespace tutti {

inline bool operator==(const Extent& a, const Extent& b) { return a.offset == b.offset && a.bytes == b.bytes; }
inline std::ostream& operator<<(std::ostream& out, const Extent& extent) {
  return out << extent.bytes << " bytes at " << extent.offset;
}

namespace {

using namespace check_programs;

Call call_of(Collective collective, std::size_t count = 8) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.type = DataType::int32;
  return call;
}

/// A program of which only rank 0's part is of interest.
Program program_of(Shape shape, const RankProgram& first) {
  std::vector<RankProgram> parts(static_cast<std::size_t>(shape.ranks));
  parts[0] = first;
  return make_flat("made", shape, parts);
}

/// A plan of rank 0 bound to a call, ready to run.
struct Bound {
  Bound(const Program& program, const Call& call, const FakeLimits& limits = {}, std::size_t tile = 0)
      : ranks(program.shape.ranks, limits), plan(compile(program, 0, call.in_place, ranks.links(0)).value()) {
    status = bound.bind({plan.get(), tile}, call, limits.stage_bytes);
    if (status) bound.prepare();
  }
  /// Kinds of the steps of the straight line.
  std::vector<StepKind> line() const {
    std::vector<StepKind> kinds;
    for (const StraightStep& step : bound.straight_line()) kinds.push_back(step.step->step.kind);
    return kinds;
  }

  FakeRanks ranks;
  std::unique_ptr<Plan> plan;
  BoundPlan bound;
  Status status;
};

TEST(BoundPlan, CutsChunksSoThatTwoTilesFitIntoEveryLink) {
  const FakeLimits limits{.chunk_limit = 128, .slots = 4};  // a window of 512 bytes
  const Bound bound(exchange(), call_of(Collective::all_reduce, 200), limits);
  EXPECT_EQ(bound.bound.tile(), 256u);
  EXPECT_EQ(bound.bound.tiles(), 4u);
  const PlanStep& receives = bound.plan->workers[0].steps[1];
  EXPECT_EQ(bound.bound.extent_of(receives, 1, 0, 1), (Extent{256, 256}));
  EXPECT_EQ(bound.bound.extent_of(receives, 1, 0, 3), (Extent{768, 32}));
  EXPECT_TRUE(bound.line().empty());
}

TEST(BoundPlan, TakesASmallerTileAndRoundsItToLines) {
  const FakeLimits limits{.chunk_limit = 128, .slots = 4};
  const Call call = call_of(Collective::all_reduce, 200);
  EXPECT_EQ(Bound(exchange(), call, limits, 200).bound.tile(), 192u);
  EXPECT_EQ(Bound(exchange(), call, limits, 4096).bound.tile(), 256u) << "the link's window is the limit";
}

TEST(BoundPlan, RunsWhatFitsIntoATileInOne) {
  const Bound bound(exchange(), call_of(Collective::all_reduce, 50), {}, 1024);
  EXPECT_EQ(bound.bound.tiles(), 1u);
  EXPECT_EQ(bound.bound.tile(), 200u);
  EXPECT_EQ(Bound(exchange(), call_of(Collective::all_reduce, 0)).bound.tile(), 64u);
  EXPECT_EQ(Bound(exchange(), call_of(Collective::all_reduce, 0)).bound.tiles(), 1u);
}

TEST(BoundPlan, SharesTheStageAmongTheChunksThatLieInIt) {
  const auto program = make_program("staged", Collective::all_reduce, Layout::one_host(3));
  const Bound bound(*program, call_of(Collective::all_reduce, 480), {.stage_bytes = 1000});
  EXPECT_TRUE(bound.bound.staged());
  EXPECT_EQ(bound.bound.tile(), 320u) << "a third of 1000, in whole lines";
  EXPECT_EQ(bound.bound.tiles(), 2u);
  EXPECT_EQ(bound.bound.scratch_bytes(), 0u) << "none is this rank's alone";
  const PlanStep& stages = bound.plan->workers[0].steps[0];
  ASSERT_EQ(stages.step.targets[0], scratch(0));
  EXPECT_EQ(bound.bound.extent_of(stages, 1, 0, 1), (Extent{0, 320})) << "every tile lies at the same place";
  EXPECT_EQ(bound.bound.extent_of(stages, 0, 0, 1), (Extent{640 + 320, 320}));
}

TEST(BoundPlan, KeepsScratchOfTwoSidedProgramsInMemoryOfItsOwn) {
  const auto program = make_program("oneshot", Collective::all_reduce, Layout::one_host(3));
  const Bound bound(*program, call_of(Collective::all_reduce, 20));
  EXPECT_FALSE(bound.bound.staged());
  EXPECT_EQ(bound.bound.scratch_bytes(), 2u * 128) << "whole lines";
  const PlanStep& reduces = bound.plan->workers.back().steps.back();
  ASSERT_EQ(reduces.step.kind, StepKind::reduce);
  EXPECT_EQ(bound.bound.extent_of(reduces, 2, 0, 0).offset + bound.bound.extent_of(reduces, 1, 0, 0).offset, 128u);
}

TEST(BoundPlan, KnowsTheBytesOfTheCallersBuffers) {
  const auto bytes_of_sides = [](Collective collective) {
    const auto program = make_program("oneshot", collective, Layout::one_host(3));
    const Bound bound(*program, call_of(collective, 5));
    return std::pair(bound.bound.buffer_bytes(Buffer::input), bound.bound.buffer_bytes(Buffer::output));
  };
  using Sides = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(bytes_of_sides(Collective::all_reduce), Sides(20, 20));
  EXPECT_EQ(bytes_of_sides(Collective::all_gather), Sides(20, 60));
  EXPECT_EQ(bytes_of_sides(Collective::gather), Sides(20, 60));
  EXPECT_EQ(bytes_of_sides(Collective::reduce_scatter), Sides(60, 20));
  EXPECT_EQ(bytes_of_sides(Collective::scatter), Sides(60, 20));
  EXPECT_EQ(bytes_of_sides(Collective::all_to_all), Sides(60, 60));
}

TEST(BoundPlan, RefusesUnevenChunksIfScratchHasNoKnownSize) {
  const auto through_scratch = [](int chunks) {
    return program_of({Collective::all_reduce, 2, 0, chunks},
                      part({between(1, 1, {recv(scratch(0)), send(scratch(0))})}, 1));
  };
  EXPECT_TRUE(Bound(through_scratch(2), call_of(Collective::all_reduce, 64)).status.has_value());
  const Bound odd(through_scratch(2), call_of(Collective::all_reduce, 63));
  ASSERT_FALSE(odd.status.has_value());
  EXPECT_EQ(odd.status.error().code, ErrorCode::unsupported);
  EXPECT_EQ(odd.status.error().message,
            "program made holds chunks of unknown size in scratch and cannot run uneven ones");
  Call uneven = call_of(Collective::all_reduce, 64);
  uneven.uneven = true;
  EXPECT_FALSE(Bound(through_scratch(2), uneven).status.has_value());
  EXPECT_FALSE(Bound(through_scratch(1), uneven).status.has_value());
}

TEST(StraightLine, HasAllSendsBeforeAllReceivesBeforeWhatNeedsThem) {
  const auto program = make_program("oneshot", Collective::all_reduce, Layout::one_host(3));
  const Bound bound(*program, call_of(Collective::all_reduce));
  EXPECT_EQ(bound.line(),
            (std::vector<StepKind>{StepKind::send, StepKind::send, StepKind::recv, StepKind::recv, StepKind::reduce}));
  const std::vector<StraightStep>& line = bound.bound.straight_line();
  EXPECT_EQ(line[1].worker, &bound.plan->workers[1]);
  EXPECT_EQ(line[1].worker_index, 1);
  EXPECT_EQ(line[3].step_index, 1);
  EXPECT_EQ(line[3].step, &bound.plan->workers[1].steps[1]);
  EXPECT_EQ(line[0].bytes, 32u);
  EXPECT_EQ(line[0].source.buffer, Buffer::input);
  EXPECT_EQ(line[3].target.buffer, Buffer::scratch);
}

TEST(StraightLine, IsNotForSeveralTilesOrOneSidedPrograms) {
  EXPECT_EQ(Bound(exchange(), call_of(Collective::all_reduce)).line().size(), 2u);
  EXPECT_TRUE(Bound(exchange(), call_of(Collective::all_reduce, 100), {}, 64).line().empty());
  EXPECT_TRUE(Bound(direct_all_reduce(2), call_of(Collective::all_reduce)).line().empty());
}

TEST(StraightLine, IsNotForStepsThatForwardOrAreGuarded) {
  EXPECT_TRUE(Bound(ring_all_reduce(3), call_of(Collective::all_reduce)).line().empty());
  Call in_place = call_of(Collective::all_reduce);
  in_place.in_place = true;
  EXPECT_TRUE(Bound(exchange(), in_place).line().empty());
}

TEST(StraightLine, IsNotForSeveralChunksAtOnceOrChunksThatTheLinkCuts) {
  const Call call = call_of(Collective::all_reduce, 32);
  const auto moves = [](int count) {
    const Shape shape{Collective::all_reduce, 2, 0, 2};
    return program_of(shape, part({alone({copy(input(0, count), output(0, count))})}));
  };
  EXPECT_EQ(Bound(moves(1), call).line().size(), 1u);
  EXPECT_TRUE(Bound(moves(2), call).line().empty());
  const Shape shape{Collective::all_reduce, 2, 0, 1};
  const Program sends = program_of(shape, part({between(kNobody, 1, {send(input(0))})}));
  const Program receives = program_of(shape, part({between(1, kNobody, {recv(output(0))})}));
  for (const Program* const program : {&sends, &receives}) {
    EXPECT_EQ(Bound(*program, call, {.chunk_limit = 128, .slots = 4}).line().size(), 1u);
    EXPECT_TRUE(Bound(*program, call, {.chunk_limit = 64, .slots = 4}).line().empty());
  }
}

TEST(StraightLine, IsNotForSendsThatWaitForWhatIsReceived) {
  const Shape shape{Collective::all_reduce, 2, 0, 1};
  const Call call = call_of(Collective::all_reduce);
  EXPECT_TRUE(Bound(program_of(shape, part({with(1, {recv(output(0)), send(input(0))})})), call).line().empty());
  const Program by_dependency = program_of(
      shape, part({between(1, kNobody, {recv(output(0))}), between(kNobody, 1, {after(send(input(0)), 0, 0)})}));
  EXPECT_TRUE(Bound(by_dependency, call).line().empty());
  const Program copies_after = program_of(
      shape, part({between(1, kNobody, {recv(scratch(0))}), alone({after(copy(scratch(0), output(0)), 0, 0)})}, 1));
  EXPECT_EQ(Bound(copies_after, call).line(), (std::vector<StepKind>{StepKind::recv, StepKind::copy}));
}

}  // namespace
}  // namespace tutti
