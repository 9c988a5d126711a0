// What goes wrong while an operation runs: who fails, with which error about whom, and what is not touched any more.
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

Error failure(const char* message) { return fail(ErrorCode::system, message).value(); }

/// Two ranks that exchange vectors: small ones in a straight line, others worker by worker.
struct TwoRanks {
  explicit TwoRanks(std::size_t count, const Program& program = exchange())
      : exercise({.ranks = 2, .count = count}), ranks(2, {.chunk_limit = 64, .slots = 8}) {
    ranks.load(program, exercise);
  }
  void expect_failure(int rank, int peer, const std::string& message) {
    EXPECT_EQ(ranks.run(), Outcome::failed);
    ASSERT_EQ(ranks.execution(rank).state(), State::failed);
    EXPECT_EQ(ranks.execution(rank).error().message, message);
    EXPECT_EQ(ranks.execution(rank).error().peer, peer);
    EXPECT_FALSE(ranks.advance(rank)) << "nothing moves any more";
  }

  Exercise exercise;
  FakeRanks ranks;
};

constexpr std::size_t kStraightAndNot[] = {4, 64};

TEST(Failure, OfASendIsAboutTheReceiver) {
  for (const std::size_t count : kStraightAndNot) {
    TwoRanks two(count);
    two.ranks.link(0, 1).send_error = failure("the way is gone");
    two.expect_failure(0, 1, "the way is gone");
    EXPECT_EQ(two.ranks.execution(1).state(), State::running);
    EXPECT_TRUE(two.exercise.is_untouched(0));
  }
}

TEST(Failure, OfAReceiveIsAboutTheSender) {
  for (const std::size_t count : kStraightAndNot) {
    TwoRanks two(count);
    two.ranks.link(0, 1).recv_error = failure("the memory cannot be read");
    two.expect_failure(1, 0, "the memory cannot be read");
    EXPECT_EQ(two.ranks.execution(1).error().code, ErrorCode::system);
    EXPECT_TRUE(two.exercise.is_untouched(1));
  }
}

TEST(Failure, MovesTheOperation) {
  TwoRanks two(4);
  two.ranks.start_all();
  two.ranks.link(0, 1).send_error = failure("the way is gone");
  EXPECT_TRUE(two.ranks.advance(0)) << "the caller is to look at its state";
}

TEST(Failure, OfALinkThatHasYetToReleaseMemoryFailsTheOperation) {
  for (const std::size_t count : kStraightAndNot) {
    TwoRanks two(count);
    two.ranks.link(0, 1).holds_memory = true;
    EXPECT_EQ(two.ranks.run(), Outcome::stuck);
    two.ranks.link(0, 1).send_error = failure("the peer is gone");
    EXPECT_TRUE(two.ranks.advance(0));
    two.expect_failure(0, 1, "the peer is gone");
  }
}

TEST(Failure, OfALinkIsOfNoInterestOnceAllMemoryIsReleased) {
  TwoRanks two(4);
  two.ranks.start_all();
  two.ranks.link(1, 0).holds_chunks = true;
  for (const int rank : {0, 1, 0}) two.ranks.advance(rank);
  two.ranks.link(0, 1).send_error = failure("the peer is gone");
  two.ranks.link(1, 0).holds_chunks = false;
  EXPECT_EQ(two.ranks.run(), Outcome::done) << "it had sent all that was needed";
}

TEST(Failure, ToForwardEndsTheStep) {
  Exercise exercise({.collective = Collective::broadcast, .ranks = 3, .count = 48});
  FakeRanks ranks(3, {.chunk_limit = 64, .slots = 6});
  ranks.load(
      make_flat("chain", {Collective::broadcast, 3, 0, 1},
                {part({between(kNobody, 1, {copy(input(0), output(0)), send(output(0))})}),
                 part({between(0, 2, {recv_copy_send(output(0))})}), part({between(1, kNobody, {recv(output(0))})})}),
      exercise);
  ranks.link(1, 2).send_error = failure("the way is gone");
  EXPECT_EQ(ranks.run(), Outcome::failed);
  EXPECT_EQ(ranks.execution(1).error().peer, 2);
  EXPECT_EQ(ranks.link(0, 1).taken(), 1u) << "it takes no more when it cannot forward";
}

TEST(Failure, OfOneWorkerKeepsTheOthersFromRunning) {
  Exercise exercise({.ranks = 2, .count = 100});
  FakeRanks ranks(2, {.chunk_limit = 64, .slots = 2});
  const Program program =
      make_flat("two workers", {Collective::all_reduce, 2, 0, 1},
                {part({between(1, kNobody, {recv(scratch(0))}), alone({copy(input(0), output(0))})}, 1), part({})});
  ranks.load(program, exercise);
  ranks.link(1, 0).recv_error = failure("the way is gone");
  ASSERT_TRUE(ranks.start(0).has_value());
  ranks.advance(0);
  EXPECT_EQ(ranks.execution(0).state(), State::failed);
  EXPECT_TRUE(exercise.is_untouched(0));
}

TEST(Failure, IsAChunkOfAnotherOperation) {
  for (const std::size_t count : kStraightAndNot) {
    TwoRanks two(count);
    two.ranks.link(0, 1).false_tag = OperationTag{5, 6};
    two.expect_failure(1, 0, "rank 0 is in operation 5 with another call");
    EXPECT_EQ(two.ranks.execution(1).error().code, ErrorCode::mismatch);
    EXPECT_TRUE(two.exercise.is_untouched(1));
  }
}

TEST(Failure, IsAChunkOfAnotherSize) {
  for (const std::size_t count : kStraightAndNot) {
    TwoRanks two(count);
    two.ranks.link(0, 1).false_bytes = 8;
    two.expect_failure(1, 0, "rank 0 sent 8 bytes where others were expected: its counts differ");
    EXPECT_TRUE(two.exercise.is_untouched(1));
  }
}

TEST(Failure, IsAPeerThatEntersWithAnotherCall) {
  TwoRanks two(64, direct_all_reduce(2));
  ASSERT_TRUE(two.ranks.start(1, OperationTag{0, 99}).has_value());
  two.expect_failure(0, 1, "rank 1 entered operation 0 with another call");
  EXPECT_EQ(two.ranks.execution(0).error().code, ErrorCode::mismatch);
  EXPECT_EQ(two.ranks.peers(0).uses(), 0);
}

TEST(Failure, IsAPeerThatEntersWithAnotherCallWhileAPlanIsChosen) {
  TwoRanks two(64);
  two.ranks.load_mapped(direct_all_reduce(2));
  ASSERT_TRUE(two.ranks.start(0).has_value());
  ASSERT_TRUE(two.ranks.start(1, OperationTag{0, 99}).has_value());
  EXPECT_TRUE(two.ranks.advance(0));
  two.expect_failure(0, 1, "rank 1 entered operation 0 with another call");
  EXPECT_EQ(two.ranks.link(0, 1).sent(), 0u);
}

TEST(Failure, ToUseTheBuffersOfAPeerIsAboutThatPeer) {
  TwoRanks two(64, direct_all_reduce(2));
  two.ranks.peers(0).begin_use_error = failure("no more mappings");
  two.expect_failure(0, 1, "no more mappings");
  EXPECT_EQ(two.ranks.peers(0).uses(), 0);
  EXPECT_EQ(two.ranks.peers(0).pushes(), 0);
}

Program pulls(Collective collective) { return *make_program("direct_pull", collective, Layout::one_host(3)); }

TEST(Failure, ToPullWhatIsCopiedIsAboutItsOwner) {
  Exercise exercise({.collective = Collective::all_gather, .ranks = 3, .count = 10});
  FakeRanks ranks(3);
  ranks.load(pulls(Collective::all_gather), exercise);
  ranks.peers(2).is_mapped = false;
  ranks.peers(0).pull_error = failure("no permission");
  EXPECT_EQ(ranks.run(), Outcome::failed);
  EXPECT_EQ(ranks.execution(0).error().message, "no permission");
  EXPECT_EQ(ranks.execution(0).error().peer, 2);
  EXPECT_EQ(ranks.execution(1).state(), State::running) << "rank 0 does not signal";
  EXPECT_GT(ranks.peers(0).uses(), 0) << "mappings stay until the communicator is destroyed";
}

TEST(Failure, ToPullWhatIsReducedIsAboutItsOwner) {
  Exercise exercise({.collective = Collective::reduce_scatter, .ranks = 3, .count = 10});
  FakeRanks ranks(3);
  ranks.load(pulls(Collective::reduce_scatter), exercise);
  ranks.peers(2).is_mapped = false;
  ranks.peers(0).pull_error = failure("no permission");
  EXPECT_EQ(ranks.run(), Outcome::failed);
  EXPECT_EQ(ranks.execution(0).error().message, "no permission");
  EXPECT_EQ(ranks.execution(0).error().peer, 2);
  EXPECT_TRUE(exercise.is_untouched(0)) << "nothing is combined";
}

TEST(Failure, LeavesTheBuffersOfAOneSidedCallExposed) {
  TwoRanks two(64, direct_all_reduce(2));
  two.ranks.peers(0).begin_use_error = failure("no more mappings");
  EXPECT_EQ(two.ranks.run(), Outcome::failed);
  EXPECT_EQ(two.ranks.execution(0).exposed()[0].size(), 256u);
  EXPECT_EQ(two.ranks.execution(0).exposed()[1].size(), 256u);
}

TEST(PeerThatGaveUp, KeepsTheOperationFromEndingWell) {
  TwoRanks two(64, direct_all_reduce(2));
  two.ranks.peers(0).has_stopped = 1;
  EXPECT_EQ(two.ranks.run(), Outcome::stuck);
  EXPECT_EQ(two.ranks.execution(0).state(), State::running);
  EXPECT_EQ(two.ranks.execution(1).state(), State::done);
  EXPECT_EQ(two.ranks.peers(0).operations_left(), 0);
  EXPECT_GT(two.ranks.peers(0).uses(), 0);
  two.ranks.peers(0).has_stopped = 0;
  EXPECT_EQ(two.ranks.run(), Outcome::done);
}

TEST(PeerThatGaveUp, KeepsAnythingFromBeingSent) {
  for (const std::size_t count : kStraightAndNot) {
    TwoRanks two(count);
    two.ranks.peers(0).has_stopped = 1;
    EXPECT_EQ(two.ranks.run(), Outcome::stuck);
    EXPECT_EQ(two.ranks.link(0, 1).sent(), 0u);
    EXPECT_EQ(two.ranks.execution(0).state(), State::running) << "the news of what happened is on its way";
  }
}

TEST(PeerThatGaveUp, KeepsAnythingFromBeingForwarded) {
  Exercise exercise({.ranks = 3, .count = 100});
  FakeRanks ranks(3);
  ranks.load(ring_all_reduce(3), exercise);
  ranks.start_all();
  for (const int rank : {0, 1, 2}) ranks.advance(rank);
  const std::uint64_t sent = ranks.link(0, 1).sent();
  ranks.peers(0).has_stopped = 1;
  EXPECT_EQ(ranks.run(), Outcome::stuck);
  EXPECT_EQ(ranks.link(0, 1).sent(), sent);
}

/// Rank 0 passes on what it receives, by way of scratch.
Program through_scratch() {
  return make_flat("through scratch", {Collective::broadcast, 3, 2, 2},
                   {part({between(2, 1, {recv(scratch(0)), send(scratch(0)), recv(scratch(0)), send(scratch(0))})}, 1),
                    part({between(0, kNobody, {recv(output(0)), recv(output(1))})}),
                    part({between(kNobody, 0, {send(input(0)), send(input(1))})})});
}

TEST(Failure, IsACallThatThePlanCannotCarry) {
  Exercise even({.collective = Collective::broadcast, .ranks = 3, .count = 32, .root = 2});
  Exercise odd({.collective = Collective::broadcast, .ranks = 3, .count = 33, .root = 2});
  FakeRanks ranks(3);
  ranks.load(through_scratch(), odd);
  const Status refused = ranks.start(0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_EQ(ranks.execution(0).state(), State::failed);
  EXPECT_EQ(ranks.execution(0).error().message, refused.error().message);
  EXPECT_FALSE(ranks.advance(0));
  EXPECT_EQ(ranks.link(2, 0).expected(), 0u);
  ranks.load(*make_program("oneshot", Collective::broadcast, Layout::one_host(3), {.root = 2}), odd);
  ranks.load_mapped(through_scratch());
  EXPECT_FALSE(ranks.start(0).has_value()) << "the second plan cannot either";
  ranks.load(through_scratch(), even);
  EXPECT_TRUE(ranks.start(0).has_value()) << "another call can";
  EXPECT_EQ(ranks.execution(0).state(), State::running);
}

TEST(Failure, ToStartExposesNothing) {
  Exercise first({.ranks = 3, .count = 30});
  Exercise odd({.collective = Collective::broadcast, .ranks = 3, .count = 33, .root = 2});
  FakeRanks ranks(3);
  ranks.load(direct_all_reduce(3), first);
  EXPECT_EQ(ranks.run(), Outcome::done);
  ranks.load(through_scratch(), odd);
  ASSERT_FALSE(ranks.start(0).has_value());
  for (const auto& buffer : ranks.execution(0).exposed()) EXPECT_TRUE(buffer.empty()) << "those of the call before";
}

TEST(Failure, LeavesNothingThatTheNextCallWouldGoOnWith) {
  TwoRanks two(64);
  two.ranks.link(1, 0).recv_error = failure("the way is gone");
  two.expect_failure(0, 1, "the way is gone");  // within its second step
  Exercise second({.ranks = 2, .count = 64});
  FakeRanks& ranks = two.ranks;
  ranks.load(direct_all_reduce(2), second);
  ASSERT_TRUE(ranks.start(0).has_value());
  EXPECT_FALSE(ranks.advance(0)) << "rank 1 has not entered";
  EXPECT_EQ(ranks.run(), Outcome::done);
  EXPECT_EQ(second.mistakes() + ranks.fault(), "");
}

TEST(RunState, KeepsTheFirstError) {
  RunState run;
  run.begin({3, 4});
  EXPECT_TRUE(run.is_running());
  EXPECT_FALSE(run.fail_about(2, failure("first")));
  EXPECT_FALSE(run.fail_about(1, failure("second")));
  EXPECT_EQ(run.error().message, "first");
  EXPECT_EQ(run.error().peer, 2);
  EXPECT_EQ(run.state(), State::failed);
  run.begin({4, 4});
  EXPECT_TRUE(run.is_running());
  EXPECT_FALSE(run.fail(failure("third")));
  EXPECT_EQ(run.error().message, "third");
}

}  // namespace
}  // namespace tutti
