#include "algorithm/builder.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace tutti::generate {
namespace {

using After = std::vector<Dependency>;

constexpr Shape kAllReduceOfTwo{Collective::all_reduce, 2, 0, 4};

TEST(PartBuilder, LetsAReaderWaitForTheWriterOnAnotherWorker) {
  PartBuilder part(kAllReduceOfTwo, 0, true);
  part.worker(kNobody, 1).recv(output(0));
  part.worker(kNobody, 1).recv(output(1));
  part.worker(1, kNobody).send(output(0));
  const RankProgram done = std::move(part).finish();
  ASSERT_EQ(done.workers.size(), 2u);
  EXPECT_EQ(done.workers[1].steps[0].after, (After{{0, 0}}));
}

TEST(PartBuilder, LetsAWriterWaitForTheReadersBeforeIt) {
  PartBuilder part(kAllReduceOfTwo, 0, true);
  const Cells cell = part.scratch(1);
  part.worker(1, kNobody).send(cell);
  part.local().copy(input(0), cell);
  EXPECT_EQ(std::move(part).finish().workers[1].steps[0].after, (After{{0, 0}}));
}

TEST(PartBuilder, NamesOnlyTheLastOfSeveralStepsOfAWorker) {
  PartBuilder part(kAllReduceOfTwo, 0, true);
  for (int chunk = 0; chunk < 4; ++chunk) part.worker(kNobody, 1).recv(output(chunk));
  part.worker(1, kNobody).send(output(0, 4));
  EXPECT_EQ(std::move(part).finish().workers[1].steps[0].after, (After{{0, 3}}));
}

TEST(PartBuilder, AddsNothingWithinAWorkerOrBetweenReaders) {
  PartBuilder part(kAllReduceOfTwo, 0, true);
  part.worker(1, kNobody).send(input(0));
  part.local().copy(input(0), output(1));
  part.local().copy(output(1), output(2));
  const RankProgram done = std::move(part).finish();
  for (const Step& step : done.workers[1].steps) EXPECT_TRUE(step.after.empty());
}

TEST(PartBuilder, TreatsAliasedCellsAsOneOnlyWhereTheProgramRunsInPlace) {
  for (bool in_place : {false, true}) {
    PartBuilder part(kAllReduceOfTwo, 0, in_place);
    part.worker(1, kNobody).send(input(2));
    part.worker(kNobody, 1).recv(output(2));
    EXPECT_EQ(std::move(part).finish().workers[1].steps[0].after, in_place ? After({{0, 0}}) : After());
  }
}

TEST(AliasedOutput, IsWhereEachCollectivePutsInputInPlace) {
  EXPECT_EQ(aliased_output({Collective::all_reduce, 4, 0, 2}, 3, 1), 1);
  EXPECT_EQ(aliased_output({Collective::all_gather, 4, 0, 2}, 3, 1), 7);
  EXPECT_EQ(aliased_output({Collective::reduce_scatter, 4, 0, 2}, 3, 7), 1);
  EXPECT_EQ(aliased_output({Collective::reduce_scatter, 4, 0, 2}, 3, 5), -1);
  EXPECT_EQ(aliased_output({Collective::all_to_all, 4, 0, 2}, 3, 5), 5);
  EXPECT_EQ(aliased_output({Collective::reduce, 4, 0, 2}, 3, 1), -1);
  EXPECT_EQ(aliased_output({Collective::gather, 4, 3, 2}, 3, 1), 7);
  EXPECT_EQ(aliased_output({Collective::gather, 4, 0, 2}, 3, 1), -1);
  EXPECT_EQ(aliased_output({Collective::scatter, 4, 3, 2}, 3, 6), 0);
  EXPECT_EQ(aliased_output({Collective::point_to_point, 2, 0, 2}, 0, 1), -1);
}

TEST(Assemble, GivesEachInstanceItsOwnChannelsChunksAndDependencies) {
  const auto emit = [](PartBuilder& part) {
    const int peer = 1 - part.rank();
    part.local().copy(input(0), output(part.rank()));
    part.worker(peer, kNobody).send(output(part.rank()));
    part.worker(kNobody, peer).recv(output(peer));
  };
  const Program program = assemble({.name = "gather", .shape = {Collective::all_gather, 2, 0, 1}, .emit = emit}, 2);
  EXPECT_EQ(program.shape.chunks, 2);
  const RankProgram part = program.part(1);
  ASSERT_EQ(part.workers.size(), 6u);
  EXPECT_EQ(part.workers[1].steps[0].sources[0], output(2));
  EXPECT_EQ(part.workers[4].steps[0].sources[0], output(3));
  EXPECT_EQ(part.workers[4].channel, 1);
  EXPECT_EQ(part.workers[4].steps[0].after, (After{{3, 0}}));
}

TEST(Assemble, SplitsStepsOnManyCellsWhereThereAreSeveralInstances) {
  const auto emit = [](PartBuilder& part) {
    if (part.rank() == 0) return part.worker(1, kNobody).send(input(0, 3));
    part.worker(kNobody, 0).recv(output(0, 3));
  };
  const Recipe recipe{.name = "move", .shape = {Collective::point_to_point, 2, 0, 3}, .emit = emit};
  EXPECT_EQ(assemble(recipe, 1).part(1).workers[0].steps.size(), 1u);
  const RankProgram part = assemble(recipe, 2).part(1);
  ASSERT_EQ(part.workers.size(), 2u);
  ASSERT_EQ(part.workers[1].steps.size(), 3u);
  EXPECT_EQ(part.workers[1].steps[2].targets[0], output(5));
}

}  // namespace
}  // namespace tutti::generate
