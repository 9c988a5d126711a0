#include "program/check/check.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "program/check/check_programs_test_kit.hpp"

namespace tutti {
namespace {

using namespace check_programs;  // NOLINT(google-build-using-namespace)

std::string reason(const CheckReport& report) { return report.violation ? report.violation->to_string() : "ok"; }

TEST(CheckAccepts, an_exchange_in_rank_order) {
  const CheckReport report = check(exchange());
  EXPECT_TRUE(report.ok()) << reason(report);
  EXPECT_EQ(report.roundings, 1);
  EXPECT_TRUE(report.rank_order);
  EXPECT_TRUE(report.ordered_operands);
}

TEST(CheckAccepts, a_ring_all_gather_with_many_chunks) {
  for (const int chunks : {1, 2, 7}) {
    CheckOptions options;
    options.slots = chunks + 1;
    const CheckReport report = check(ring_all_gather(3, chunks), options);
    EXPECT_TRUE(report.ok()) << chunks << ": " << reason(report);
    EXPECT_EQ(report.roundings, 0);
  }
}

TEST(CheckAccepts, a_ring_all_reduce_and_counts_its_roundings) {
  for (const int ranks : {2, 3, 5, 8}) {
    const CheckReport report = check(ring_all_reduce(ranks));
    EXPECT_TRUE(report.ok()) << ranks << ": " << reason(report);
    EXPECT_EQ(report.roundings, ranks - 1);
    EXPECT_FALSE(report.rank_order) << "chunk 1 begins at rank 1";
    EXPECT_FALSE(report.ordered_operands);
  }
}

TEST(CheckAccepts, a_direct_all_reduce_in_rank_order) {
  for (const int ranks : {2, 3, 8}) {
    const CheckReport report = check(direct_all_reduce(ranks));
    EXPECT_TRUE(report.ok()) << ranks << ": " << reason(report);
    EXPECT_EQ(report.roundings, 1);
    EXPECT_TRUE(report.rank_order);
    EXPECT_TRUE(report.ordered_operands);
  }
}

TEST(CheckAccepts, a_tree_of_neighbours_as_ordered_but_not_in_rank_order) {
  // (x0 x1) (x2 x3) at rank 0.
  const Program program = make_flat(
      "tree", {Collective::reduce, 4, 0, 1},
      {part({with(1, {local_first(recv_reduce(input(0), scratch(0)))}),
             with(2, {after(completing(local_first(recv_reduce(scratch(0), output(0)))), 0, 0)})},
            1),
       part({with(0, {send(input(0))})}),
       part({with(3, {local_first(recv_reduce(input(0), scratch(0)))}), with(0, {after(send(scratch(0)), 0, 0)})}, 1),
       part({with(2, {send(input(0))})})});
  const CheckReport report = check(program);
  EXPECT_TRUE(report.ok()) << reason(report);
  EXPECT_EQ(report.roundings, 2);
  EXPECT_FALSE(report.rank_order);
  EXPECT_TRUE(report.ordered_operands);
}

TEST(CheckAccepts, a_pairwise_all_to_all) {
  const CheckReport report = check(pairwise_all_to_all(4));
  EXPECT_TRUE(report.ok()) << reason(report);
}

TEST(CheckAccepts, an_all_to_all_in_place_through_scratch) {
  const auto rank_part = [](int peer) {
    return part({with(peer, {copy(output(peer), scratch(0)), send(scratch(0)), recv(output(peer))})}, 1);
  };
  const Program program =
      in_place_only(make_flat("swap", {Collective::all_to_all, 2, 0, 1}, {rank_part(1), rank_part(0)}));
  // In place, output `peer` holds at first what goes there: it must be named as the input it is.
  EXPECT_NE(reason(check(program)).find("reads output 1 as chunk 0 from rank 1 to rank 0"), std::string::npos);
  const auto right_part = [](int peer) {
    return part({with(peer, {copy(input(peer), scratch(0)), send(scratch(0)), recv(output(peer))})}, 1);
  };
  const CheckReport report =
      check(in_place_only(make_flat("swap", {Collective::all_to_all, 2, 0, 1}, {right_part(1), right_part(0)})));
  EXPECT_TRUE(report.ok()) << reason(report);
}

TEST(CheckAccepts, each_rooted_collective) {
  const Program broadcast = make_flat(
      "b", {Collective::broadcast, 2, 1, 2},
      {part({with(1, {recv(output(0, 2))})}), part({with(0, {send(input(0, 2)), copy(input(0, 2), output(0, 2))})})});
  const Program gather =
      make_flat("g", {Collective::gather, 2, 1, 1},
                {part({with(1, {send(input(0))})}), part({with(0, {copy(input(0), output(1)), recv(output(0))})})});
  const Program scatter =
      make_flat("s", {Collective::scatter, 2, 1, 1},
                {part({with(1, {recv(output(0))})}), part({with(0, {send(input(0)), copy(input(1), output(0))})})});
  for (const Program& program : {broadcast, gather, scatter}) {
    const CheckReport report = check(program);
    EXPECT_TRUE(report.ok()) << program.name << ": " << reason(report);
    EXPECT_TRUE(report.rank_order) << "nothing is reduced, so nothing is out of order";
  }
}

TEST(CheckAccepts, a_reduce_scatter_in_place_and_out_of_place) {
  const Program program = make_flat("rs", {Collective::reduce_scatter, 2, 0, 1},
                                    {part({with(1, {send(input(1)), completing(recv_reduce(input(0), output(0)))})}),
                                     part({with(0, {send(input(0)), completing(recv_reduce(input(1), output(0)))})})});
  const CheckReport report = check(program);
  EXPECT_TRUE(report.ok()) << reason(report);
}

TEST(CheckAccepts, point_to_point) {
  const CheckReport report =
      check(make_flat("p2p", {Collective::point_to_point, 2, 0, 3},
                      {part({with(1, {send(input(0, 3))})}), part({with(0, {recv(output(0, 3))})})}));
  EXPECT_TRUE(report.ok()) << reason(report);
}

TEST(CheckAccepts, a_dissemination_barrier_though_it_counts_ranks_twice) {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < 3; ++rank) {
    Worker near = between((rank + 2) % 3, (rank + 1) % 3, {send(input(0)), recv_reduce(input(0), output(0))});
    Worker far =
        between((rank + 1) % 3, (rank + 2) % 3, {after(send(output(0)), 0, 1), recv_reduce(output(0), output(0))});
    far.channel = 1;
    parts.push_back(part({near, far}));
  }
  const CheckReport report = check(make_flat("barrier", {Collective::barrier, 3, 0, 1}, parts));
  EXPECT_TRUE(report.ok()) << reason(report);
  EXPECT_EQ(report.roundings, 0);
}

TEST(CheckAccepts, a_send_of_more_chunks_than_slots_to_a_ready_receiver) {
  const Program program = make_flat("p2p", {Collective::point_to_point, 2, 0, 9},
                                    {part({with(1, {send(input(0, 9))})}), part({with(0, {recv(output(0, 9))})})});
  CheckOptions options;
  options.slots = 1;
  const CheckReport report = check(program, options);
  EXPECT_TRUE(report.ok()) << reason(report);
}

TEST(CheckAccepts, a_copy_of_a_cell_onto_itself) {
  const CheckReport report =
      check(make_flat("one", {Collective::all_reduce, 1, 0, 2}, {part({alone({copy(input(0, 2), output(0, 2))})})}));
  EXPECT_TRUE(report.ok()) << reason(report);
  EXPECT_EQ(report.roundings, 0);
  EXPECT_TRUE(report.rank_order);
}

TEST(CheckAccepts, a_rank_that_overwrites_what_it_sent) {
  const Program program =
      make_flat("reuse", {Collective::broadcast, 2, 0, 2},
                {part({with(1, {copy(input(0), scratch(0)), send(scratch(0)), copy(input(1), scratch(0)),
                                send(scratch(0)), copy(input(0, 2), output(0, 2))})},
                      1),
                 part({with(0, {recv(output(0)), recv(output(1))})})});
  const CheckReport report = check(program);
  EXPECT_TRUE(report.ok()) << reason(report);
}

Program without_marks(const Program& program) {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < program.shape.ranks; ++rank) {
    parts.push_back(program.part(rank));
    for (Worker& worker : parts.back().workers)
      for (Step& step : worker.steps) step.completes = false;
  }
  Program unmarked = program;
  unmarked.part = make_flat("", program.shape, std::move(parts)).part;
  return unmarked;
}

TEST(AnnotateCompletion, restores_the_marks_of_correct_programs) {
  for (const Program& program : {exchange(), ring_all_reduce(5), direct_all_reduce(4), ring_all_gather(3)}) {
    Program unmarked = without_marks(program);
    unmarked.min_bytes = 7;
    const Result<Program> annotated = annotate_completion(unmarked);
    ASSERT_TRUE(annotated.has_value()) << annotated.error().to_string();
    EXPECT_EQ(annotated->name, program.name);
    EXPECT_EQ(annotated->min_bytes, 7U);
    EXPECT_EQ(annotated->one_sided, program.one_sided);
    for (int rank = 0; rank < program.shape.ranks; ++rank) EXPECT_EQ(annotated->part(rank), program.part(rank));
  }
}

TEST(AnnotateCompletion, clears_marks_that_stand_elsewhere) {
  const auto rank_part = [](int peer) {
    return part({with(peer, {completing(send(input(0))), recv_reduce(input(0), output(0))})});
  };
  const Result<Program> annotated =
      annotate_completion(make_flat("wrong", {Collective::all_reduce, 2, 0, 1}, {rank_part(1), rank_part(0)}));
  ASSERT_TRUE(annotated.has_value()) << annotated.error().to_string();
  EXPECT_TRUE(check(*annotated).ok()) << reason(check(*annotated));
}

TEST(AnnotateCompletion, refuses_a_step_that_completes_only_some_of_its_chunks) {
  // Rank 0 receives rank 1's contribution to chunk 0, and the sum of ranks 1 and 2 for chunk 1, in one step.
  const Program program = make_flat("mixed", {Collective::all_reduce, 3, 0, 2},
                                    {part({with(1, {recv_reduce(input(0, 2), output(0, 2))})}),
                                     part({with(2, {copy(input(0), scratch(0)), recv_reduce(input(1), scratch(1))}),
                                           with(0, {after(send(scratch(0, 2)), 0, 1)})},
                                          2),
                                     part({with(1, {send(input(1))})})});
  const Result<Program> annotated = annotate_completion(program);
  ASSERT_FALSE(annotated.has_value());
  EXPECT_EQ(annotated.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(annotated.error().message.find("some of its chunks and not others"), std::string::npos)
      << annotated.error().message;
}

TEST(AnnotateCompletion, refuses_programs_that_cannot_run) {
  const Result<Program> annotated =
      annotate_completion(make_flat("dead", {Collective::all_reduce, 2, 0, 1},
                                    {part({with(1, {recv_reduce(input(0), output(0)), send(input(0))})}),
                                     part({with(0, {recv_reduce(input(0), output(0)), send(input(0))})})}));
  ASSERT_FALSE(annotated.has_value());
  EXPECT_EQ(annotated.error().message.rfind("deadlock: rank 0, worker 0, step 0", 0), 0U) << annotated.error().message;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr double kSecondsAllowed = 20.0;
#elif defined(__has_feature)
constexpr double kSecondsAllowed = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 20.0 : 1.0;
#else
constexpr double kSecondsAllowed = 1.0;
#endif

void expect_fast(const Program& program, int slots = 2) {
  CheckOptions options;
  options.slots = slots;
  // Processor time: other work on the machine does not count.
  const std::clock_t start = std::clock();
  const CheckReport report = check(program, options);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_TRUE(report.ok()) << reason(report);
  EXPECT_LT(seconds, kSecondsAllowed);
}

TEST(CheckIsFast, for_a_ring_of_64_ranks) { expect_fast(ring_all_reduce(64)); }
TEST(CheckIsFast, for_a_ring_of_64_ranks_with_many_chunks) { expect_fast(ring_all_gather(64, 16), 17); }
TEST(CheckIsFast, for_64_ranks_that_read_each_other) { expect_fast(direct_all_reduce(64)); }
TEST(CheckIsFast, for_64_ranks_with_a_worker_per_peer) { expect_fast(pairwise_all_to_all(64)); }

TEST(CheckIsFast, for_64_ranks_with_a_worker_per_peer_that_all_hear_of_each_other) {
  // A barrier first, then a worker per peer after it: every worker's clock knows all ranks.
  constexpr int kRanks = 64;
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < kRanks; ++rank) {
    RankProgram own = pairwise_all_to_all(kRanks).part(rank);
    std::vector<Step> steps;
    for (int peer = 0; peer < kRanks; ++peer)
      if (peer != rank) steps.push_back(signal(peer));
    for (int peer = 0; peer < kRanks; ++peer)
      if (peer != rank) steps.push_back(wait(peer));
    for (Worker& worker : own.workers) worker.steps[0].after.push_back({kRanks, static_cast<int>(steps.size()) - 1});
    Step all_done = nop();
    for (int worker = 0; worker < kRanks; ++worker)
      all_done.after.push_back(
          {worker, static_cast<int>(own.workers[static_cast<std::size_t>(worker)].steps.size()) - 1});
    steps.push_back(all_done);
    own.workers.push_back(alone(std::move(steps)));
    parts.push_back(std::move(own));
  }
  expect_fast(out_of_place_only(make_flat("barrier", {Collective::all_to_all, kRanks, 0, 1}, std::move(parts))));
}

}  // namespace
}  // namespace tutti
