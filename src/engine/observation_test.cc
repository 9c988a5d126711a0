// What others see of an operation that runs: whom it waits for, its progress, and its steps in the log.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "engine/execution.hpp"
#include "engine/fake_ranks_test_kit.hpp"
#include "monitor/operation_log.hpp"
#include "program/check/check_programs_test_kit.hpp"

namespace tutti {
namespace {

using namespace check_programs;
using State = Execution::State;

Task reduces_all(int ranks, std::size_t count) { return {.ranks = ranks, .count = count}; }

/// Every rank sends to the next one before it receives.
Program ring_of_sends() {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < 3; ++rank)
    parts.push_back(part({between((rank + 2) % 3, (rank + 1) % 3, {send(input(0)), recv(output((rank + 2) % 3))})}));
  return make_flat("ring of sends", {Collective::all_gather, 3, 0, 1}, parts);
}

TEST(Execution, SaysWhomItWaitsForInAStraightLine) {
  Exercise exercise(reduces_all(2, 4));
  FakeRanks ranks(2, {.chunk_limit = 4096, .slots = 1});
  ranks.load(exchange(), exercise);
  ranks.start_all();
  ranks.link(0, 1).holds_chunks = true;
  ranks.advance(1);
  EXPECT_EQ(ranks.execution(1).waiting_for().rank, 0);
  EXPECT_EQ(ranks.execution(1).waiting_for().worker, 0);
  EXPECT_EQ(ranks.execution(1).waiting_for().step, 1);
  ranks.advance(0);
  EXPECT_EQ(ranks.execution(0).waiting_for().rank, 1);
  EXPECT_EQ(ranks.execution(0).waiting_for().worker, -1) << "no step, but the release of memory";
  ranks.execution(0).restart({7, 7}, exercise.call(0).send, exercise.call(0).recv);
  ranks.advance(0);
  EXPECT_EQ(ranks.execution(0).waiting_for().step, 0) << "the link has no credit";
  EXPECT_EQ(ranks.execution(0).waiting_for().rank, 1);
}

TEST(Execution, SaysWhoseChunkAStraightLineWaitsFor) {
  Exercise exercise({Collective::all_gather, 3, 4});
  FakeRanks ranks(3);
  ranks.load(ring_of_sends(), exercise);
  ASSERT_TRUE(ranks.start(0).has_value());
  ranks.advance(0);
  EXPECT_EQ(ranks.link(0, 1).sent(), 1u);
  EXPECT_EQ(ranks.execution(0).waiting_for().rank, 2) << "and not rank 1, to whom the same worker sends";
}

TEST(Execution, SaysWhomAWorkerWaitsFor) {
  Exercise exercise(reduces_all(3, 300));
  FakeRanks ranks(3, {.chunk_limit = 64, .slots = 2});
  ranks.load(ring_all_reduce(3), exercise);
  ASSERT_TRUE(ranks.start(0).has_value());
  ranks.advance(0);
  Execution::Waiting waiting = ranks.execution(0).waiting_for();
  EXPECT_EQ(waiting.rank, 2) << "whose chunk is to be forwarded";
  EXPECT_EQ(waiting.worker, 0);
  EXPECT_EQ(waiting.step, 1);
  ranks.link(0, 1).holds_chunks = true;
  EXPECT_EQ(ranks.run(), Outcome::stuck);
  EXPECT_EQ(ranks.execution(1).waiting_for().rank, 0);
  ranks.link(0, 1).holds_chunks = false;
  EXPECT_EQ(ranks.run(), Outcome::done);
  for (const int rank : {0, 1, 2}) EXPECT_EQ(ranks.execution(rank).waiting_for().rank, -1);
}

TEST(Execution, SaysWhoTakesNoMoreOfWhatAWorkerSends) {
  Exercise exercise(reduces_all(2, 64));
  FakeRanks ranks(2, {.chunk_limit = 64, .slots = 2});
  ranks.load(exchange(), exercise);
  ASSERT_TRUE(ranks.start(0).has_value());
  ranks.link(0, 1).send_end().send(nullptr, 0, {});
  ranks.link(0, 1).send_end().send(nullptr, 0, {});
  ranks.advance(0);
  const Execution::Waiting waiting = ranks.execution(0).waiting_for();
  EXPECT_EQ(waiting.rank, 1);
  EXPECT_EQ(waiting.worker, 0);
  EXPECT_EQ(waiting.step, 0);
}

TEST(Execution, SaysWhoseReleaseAGuardedStepWaitsFor) {
  Exercise exercise({.ranks = 2, .count = 10, .in_place = true});
  FakeRanks ranks(2);
  ranks.load(exchange(), exercise);
  ranks.link(0, 1).copies = false;
  ASSERT_TRUE(ranks.start(0).has_value());
  ranks.advance(0);
  const Execution::Waiting waiting = ranks.execution(0).waiting_for();
  EXPECT_EQ(waiting.rank, 1);
  EXPECT_EQ(waiting.step, -1) << "no step has begun";
}

/// A recording of one communicator, in memory.
class StepLog {
 public:
  StepLog() : lines_(monitor::Map::bytes(kShape) / sizeof(Line) + 1), map_(lines_[0].bytes, kShape) {}

  monitor::OperationLog log() { return {map_, &map_.communicator(0)}; }
  std::uint64_t steps() const { return map_.communicator(0).step_count.get(); }
  const monitor::StepRecord& step(std::uint64_t index) const { return map_.step(map_.communicator(0), index); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  static constexpr monitor::Shape kShape{1, 16, 16, 1, 16, 16};

  std::vector<Line> lines_;
  monitor::Map map_;
};

TEST(Execution, LogsEveryStep) {
  for (const std::size_t count : {4, 32}) {  // in a straight line, and in two tiles
    StepLog recording;
    monitor::OperationLog log = recording.log();
    Exercise exercise(reduces_all(2, count));
    FakeRanks ranks(2, {.chunk_limit = 64, .slots = 2});
    ranks.load(exchange(), exercise);
    ranks.execution(1).observe(nullptr, &log);
    const std::uint64_t begun = ticks();
    ASSERT_EQ(ranks.run(), Outcome::done);
    const std::uint64_t tiles = count / 16 + (count < 16 ? 1 : 0);
    ASSERT_EQ(recording.steps(), 2 * tiles);
    for (std::uint64_t i = 0; i < recording.steps(); ++i) {
      const monitor::StepRecord& step = recording.step(i);
      EXPECT_EQ(step.where.get(), i % 2 << 48) << "operation 0, worker 0";
      EXPECT_EQ(step.tile.get(), i / 2);
      EXPECT_GE(step.begun.get(), begun);
      EXPECT_LE(step.begun.get() + step.duration.get(), ticks());
    }
  }
}

TEST(Execution, RecordsItsProgress) {
  for (const std::size_t count : {4, 32}) {
    monitor::Active active;
    Exercise exercise(reduces_all(2, count));
    FakeRanks ranks(2, {.chunk_limit = 64, .slots = 2});
    ranks.load(exchange(), exercise);
    ranks.execution(0).observe(&active, nullptr);
    ASSERT_TRUE(ranks.start(0).has_value());
    ranks.advance(0);
    EXPECT_EQ(active.progress[0].get(), 1u) << "one step of the first tile";
    EXPECT_EQ(ranks.run(), Outcome::done);
    EXPECT_EQ(active.progress[0].get(), (count == 4 ? 0u : std::uint64_t{1} << 32) + 2);
  }
}

/// What is recorded of an operation of rank 0 that waits.
struct Watched {
  monitor::Active active;
  monitor::CommunicatorRecord record;

  void enter(FakeRanks& ranks, int rank) {
    active.waited.set(0);
    active.waited_for.set(-1);
    active.entered.set(ticks());
    ranks.execution(rank).observe(&active, nullptr, &record);
  }
  std::uint64_t waited_for(int rank) const {
    for (const monitor::WaitRecord& each : record.waits)
      if (each.name.get() == static_cast<std::uint32_t>(rank) + 1) return each.ticks.get();
    return 0;
  }
};

/// Polls for so long, at least. Returns for how long a wait had surely begun: this thread may lose its core at any
/// time.
std::uint64_t poll_for(FakeRanks& ranks, int rank, double microseconds) {
  for (int i = 0; i < 100; ++i) ranks.advance(rank);
  const std::uint64_t length = ticks_of_microseconds(microseconds), begun = ticks();
  while (ticks() - begun < length) ranks.advance(rank);
  const std::uint64_t ended = ticks();
  ranks.advance(rank);
  return ended - begun;
}

TEST(Execution, RecordsNoWaitForWhatComesWithinAFewPolls) {
  const auto waited_after = [](int polls) {
    Watched watched;
    Exercise exercise(reduces_all(2, 4));
    FakeRanks ranks(2);
    ranks.load(exchange(), exercise);
    watched.enter(ranks, 0);
    ranks.start_all();
    for (int i = 0; i < polls; ++i) ranks.advance(0);
    ranks.advance(1);
    ranks.advance(0);
    EXPECT_EQ(ranks.execution(0).state(), State::done);
    EXPECT_EQ(watched.active.waited.get(), watched.waited_for(1));
    return watched.active.waited.get();
  };
  EXPECT_EQ(waited_after(10), 0u);
  EXPECT_NE(waited_after(100), 0u);
}

TEST(Execution, ChargesAWaitToEachRankThatWasWaitedFor) {
  Exercise exercise({Collective::all_gather, 4, 4});
  FakeRanks ranks(4);
  const auto program = make_program("direct_pull", Collective::all_gather, Layout::one_host(4), {});
  ASSERT_TRUE(program.has_value());
  ranks.load(*program, exercise);
  Watched watched;
  watched.enter(ranks, 0);
  ASSERT_TRUE(ranks.start(0).has_value());
  std::uint64_t least[4] = {}, most[4] = {}, before = watched.active.entered.get();
  for (const int late : {1, 2, 3}) {
    least[late] = poll_for(ranks, 0, 1000.0 * late);
    ASSERT_TRUE(ranks.start(late).has_value());
    ranks.advance(0);
    const std::uint64_t after = ticks();
    most[late] = after - before;
    before = after;
  }
  EXPECT_EQ(ranks.run(), Outcome::done);
  std::uint64_t sum = 0, longest = 0;
  for (const int late : {1, 2, 3}) {
    const std::uint64_t waited = watched.waited_for(late);
    EXPECT_GE(waited, least[late]) << "rank " << late << ": the first to come did not end it";
    EXPECT_LE(waited, most[late]) << "rank " << late;
    sum += waited;
    longest = std::max(longest, waited);
  }
  EXPECT_EQ(sum, watched.active.waited.get()) << "waits by rank add up";
  EXPECT_EQ(watched.waited_for(watched.active.waited_for.get()), longest);
}

TEST(Execution, CountsAWaitInTheMidstOfAnOperation) {
  Exercise exercise(reduces_all(3, 300));
  FakeRanks ranks(3, {.chunk_limit = 4096, .slots = 2});
  ranks.load(ring_all_reduce(3), exercise);
  Watched watched;
  watched.enter(ranks, 0);
  ranks.start_all();
  for (const int rank : {1, 2, 0}) ranks.advance(rank);
  EXPECT_EQ(watched.active.waited.get(), 0u) << "rank 2 has come";
  const std::uint64_t before = ticks(), least = poll_for(ranks, 0, 2000);
  EXPECT_EQ(ranks.run(), Outcome::done);
  EXPECT_GE(watched.waited_for(2), least);
  EXPECT_LE(watched.waited_for(2), ticks() - before);
}

TEST(Execution, CountsNoWaitWhileChunksAreOnTheirWay) {
  for (const bool moving : {false, true}) {
    Exercise exercise(reduces_all(2, 4));
    FakeRanks ranks(2);
    ranks.load(exchange(), exercise);
    ranks.link(1, 0).transit = moving ? Transit::chunks : Transit::none;
    Watched watched;
    watched.enter(ranks, 0);
    ranks.start_all();
    poll_for(ranks, 0, 2000);
    EXPECT_EQ(ranks.run(), Outcome::done);
    EXPECT_EQ(watched.active.waited.get() == 0, moving);
  }
}

TEST(Execution, CountsWhatTakesTooLongToBeOnItsWayAsAWaitFromItsBeginning) {
  for (const auto& [transit, longest] : {std::pair(Transit::chunks, 100e3), std::pair(Transit::copies, 1e3)}) {
    Exercise exercise(reduces_all(2, 4));
    FakeRanks ranks(2);
    ranks.load(exchange(), exercise);
    ranks.link(1, 0).transit = transit;
    Watched watched;
    watched.enter(ranks, 0);
    ranks.start_all();
    for (int i = 0; i < 100; ++i) ranks.advance(0);
    const auto note_after = [&](double microseconds) {
      ranks.execution(0).note_wait(watched.active.entered.get() + ticks_of_microseconds(microseconds));
    };
    note_after(longest / 2);
    EXPECT_EQ(watched.waited_for(1), 0U);
    note_after(1.5 * longest);
    EXPECT_GE(watched.waited_for(1), ticks_of_microseconds(1.4 * longest));
  }
}

TEST(Execution, CountsNoWaitForWhatWasOnItsWayAndHasCome) {
  Exercise exercise(reduces_all(2, 4));
  FakeRanks ranks(2);
  ranks.load(exchange(), exercise);
  ranks.link(1, 0).transit = Transit::chunks;
  Watched watched;
  watched.enter(ranks, 0);
  ranks.start_all();
  for (int i = 0; i < 100; ++i) ranks.advance(0);
  const std::uint64_t entered = watched.active.entered.get();
  ranks.execution(0).note_wait(entered + ticks_of_microseconds(50e3));
  ranks.link(1, 0).transit = Transit::none;
  ranks.execution(0).note_wait(entered + ticks_of_microseconds(60e3));
  ranks.execution(0).note_wait(entered + ticks_of_microseconds(80e3));
  EXPECT_NEAR(static_cast<double>(watched.waited_for(1)), static_cast<double>(ticks_of_microseconds(20e3)),
              static_cast<double>(ticks_of_microseconds(1e3)));
}

}  // namespace
}  // namespace tutti
