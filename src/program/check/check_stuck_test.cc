// Programs that could not run to their end: each breaks one of limits, matching, deadlock, and the checker says where.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "program/check/check.hpp"
#include "program/check/check_expect_test_kit.hpp"
#include "program/check/check_programs_test_kit.hpp"

namespace tutti {
namespace {

using namespace check_programs;  // NOLINT(google-build-using-namespace)
using Rule = Violation::Rule;

TEST(CheckLimits, names_a_shape_that_cannot_be) {
  expect_broken(make_flat("", {Collective::all_reduce, 0, 0, 1}, {}), Rule::limits, kNowhere, "0 ranks");
  expect_broken(make_flat("", {Collective::all_reduce, 1, 0, 0}, {part({})}), Rule::limits, kNowhere, "0 chunks");
  expect_broken(make_flat("", {Collective::broadcast, 2, 2, 1}, {part({}), part({})}), Rule::limits, kNowhere,
                "root 2 is not within 0 to 1");
  expect_broken(make_flat("", {Collective::point_to_point, 3, 0, 1}, {part({}), part({}), part({})}), Rule::limits,
                kNowhere, "point_to_point has 2");
  expect_broken(make_flat("", {Collective::all_to_all, 1 << 30, 0, 1 << 30}, {}), Rule::limits, kNowhere, "cells");
  expect_broken(in_place_only(out_of_place_only(exchange())), Rule::limits, kNowhere, "neither");
  expect_broken(Program{}, Rule::limits, kNowhere, "no parts");
}

TEST(CheckLimits, names_slots_that_cannot_be) {
  CheckOptions options;
  options.slots = 0;
  expect_broken(exchange(), Rule::limits, kNowhere, "0 slots", options);
}

TEST(CheckLimits, finds_a_chunk_out_of_range) {
  expect_broken(make_flat("", kOne, {part({alone({copy(input(0), output(0)), copy(input(1), output(0))})})}),
                Rule::limits, {0, 0, 1}, "input 1, but there are 1 chunks");
  expect_broken(make_flat("", kOne, {part({alone({copy(input(-1), output(0))})})}), Rule::limits, {0, 0, 0},
                "input -1");
  expect_broken(make_flat("", kOne, {part({alone({copy(input(0), scratch(0))})})}), Rule::limits, {0, 0, 0},
                "scratch 0, but there are 0 chunks");
  expect_broken(make_flat("", kOne, {part({alone({copy(input(0, 0), output(0, 0))})})}), Rule::limits, {0, 0, 0},
                "at least 1");
  expect_broken(transfer({with(1, {send(input(0, 2))})}, {with(0, {recv(output(0, 2))})}), Rule::limits, {0, 0, 0},
                "input 0 and 1 more");
}

TEST(CheckLimits, finds_a_remote_chunk_out_of_range) {
  Program program = make_flat(
      "", {Collective::broadcast, 2, 0, 1},
      {part({alone({signal(1), wait(1)})}), part({alone({wait(0), copy(at(0, scratch(0)), output(0)), signal(0)})})});
  expect_broken(program, Rule::limits, {1, 0, 1}, "rank 0's scratch 0");
}

TEST(CheckLimits, finds_a_buffer_that_the_rank_does_not_have) {
  expect_broken(transfer({with(1, {send(output(0))})}, {with(0, {recv(output(0))})}), Rule::limits, {0, 0, 0},
                "output 0, but there are 0 chunks");
}

TEST(CheckLimits, finds_a_cell_of_a_rank_that_is_not) {
  Program program = make_flat("", kOne, {part({alone({copy(at(3, input(0)), output(0))})})});
  expect_broken(program, Rule::limits, {0, 0, 0}, "a cell of rank 3");
}

TEST(CheckLimits, finds_a_peer_that_is_not) {
  expect_broken(transfer({with(5, {send(input(0))})}, {with(0, {recv(output(0))})}), Rule::limits, {0, 0, -1},
                "is 5, but ranks go from 0 to 1");
  expect_broken(transfer({with(1, {send(input(0))})}, {with(1, {recv(output(0))})}), Rule::limits, {1, 0, -1},
                "the rank itself");
  expect_broken(make_flat("", kPair, {part({alone({signal(0)})}), part({})}), Rule::limits, {0, 0, 0},
                "the rank it signals is the rank itself");
  expect_broken(make_flat("", kPair, {part({}), part({alone({wait(kNobody)})})}), Rule::limits, {1, 0, 0},
                "the rank it waits for is -1");
}

TEST(CheckLimits, finds_a_step_without_its_peer) {
  expect_broken(transfer({alone({send(input(0))})}, {with(0, {recv(output(0))})}), Rule::limits, {0, 0, 0},
                "no rank to send to");
  expect_broken(transfer({with(1, {send(input(0))})}, {alone({recv(output(0))})}), Rule::limits, {1, 0, 0},
                "no rank to receive from");
}

TEST(CheckLimits, finds_steps_of_the_wrong_shape) {
  const auto alone_with = [](Step step) { return make_flat("", kOne, {part({alone({std::move(step)})})}); };
  expect_broken(alone_with(make_step(StepKind::copy, {}, {output(0)})), Rule::limits, {0, 0, 0},
                "0 sources, expected 1");
  expect_broken(alone_with(make_step(StepKind::copy, {input(0)}, {output(0), output(0)})), Rule::limits, {0, 0, 0},
                "2 targets, expected 1");
  expect_broken(alone_with(reduce({}, {output(0)})), Rule::limits, {0, 0, 0}, "expected at least 1");
  expect_broken(alone_with(make_step(StepKind::copy, {input(0)}, {output(0)}, 0)), Rule::limits, {0, 0, 0},
                "names peer 0");
  expect_broken(alone_with(local_first(copy(input(0), output(0)))), Rule::limits, {0, 0, 0}, "local_first");
  expect_broken(alone_with(make_step(static_cast<StepKind>(77), {}, {})), Rule::limits, {0, 0, 0}, "kind 77");
}

TEST(CheckLimits, finds_cells_of_different_length_in_a_step) {
  expect_broken(make_flat("", {Collective::all_reduce, 1, 0, 2}, {part({alone({copy(input(0, 2), output(0))})})}),
                Rule::limits, {0, 0, 0}, "1 chunks at output 0, but 2");
}

TEST(CheckLimits, finds_a_send_of_another_ranks_cell) {
  expect_broken(make_flat("", kPair, {part({with(1, {send(at(1, input(0)))})}), part({with(0, {recv(output(0))})})}),
                Rule::limits, {0, 0, 0}, "a send names rank 1's input 0");
}

TEST(CheckLimits, finds_a_program_that_hides_that_it_is_one_sided) {
  Program program = direct_all_reduce(2);
  program.one_sided = false;
  expect_broken(program, Rule::limits, {0, 0, 0}, "does not say that it is one-sided");
}

TEST(CheckLimits, finds_dependencies_on_nothing) {
  const auto dependent = [](int worker, int step) {
    return make_flat("", kOne,
                     {part({alone({nop()}), alone({nop(), after(copy(input(0), output(0)), worker, step)})})});
  };
  expect_broken(dependent(2, 0), Rule::limits, {0, 1, 1}, "worker 2, but the rank has 2");
  expect_broken(dependent(0, 1), Rule::limits, {0, 1, 1}, "step 1, but that worker has 1");
  expect_broken(dependent(1, 1), Rule::limits, {0, 1, 1}, "its own worker");
  EXPECT_TRUE(check(dependent(1, 0)).ok()) << "an earlier step of the same worker is merely redundant";
}

TEST(CheckLimits, holds_the_limits_given) {
  CheckOptions options;
  options.max_channels = 1;
  expect_broken(transfer({with(1, {send(input(0))}, 1)}, {with(0, {recv(output(0))}, 1)}), Rule::limits, {0, 0, -1},
                "channel 1", options);
  options.max_steps = 1;
  expect_broken(exchange(), Rule::limits, {0, 0, -1}, "2 steps", options);
  options.max_workers = 0;
  expect_broken(exchange(), Rule::limits, {0, -1, -1}, "1 workers", options);
  options = {};
  options.max_cells = 3;
  expect_broken(make_flat("", kOne, {part({}, 4)}), Rule::limits, {0, -1, -1}, "scratch", options);
  expect_broken(make_flat("", kOne, {part({}, -1)}), Rule::limits, {0, -1, -1}, "-1 scratch chunks", options);
  expect_broken(make_flat("", kOne, {part({alone({nop(), nop(), nop(), nop()})})}), Rule::limits, {0, 0, 3},
                "more than 3 chunks", options);
}

TEST(CheckMatching, finds_a_send_without_receive) {
  expect_broken(transfer({with(1, {send(input(0)), send(input(0))})}, {with(0, {recv(output(0))})}), Rule::matching,
                {0, 0, 1}, "sends to rank 1 on channel 0, which receives only 1 chunks");
  expect_broken(transfer({with(1, {send(input(0))}, 1)}, {with(0, {recv(output(0))})}), Rule::matching, {1, 0, 0},
                "receives from rank 0 on channel 0, which sends only 0");
}

TEST(CheckMatching, finds_different_numbers_of_chunks) {
  expect_broken(transfer({with(1, {send(input(0, 2))})}, {with(0, {recv(output(0)), recv(output(1))})}, 2),
                Rule::matching, {0, 0, 0}, "send 0 to rank 1 on channel 0 has 2 chunks, but rank 1 worker 0 step 0");
}

TEST(CheckMatching, finds_two_workers_on_one_channel) {
  expect_broken(transfer({with(1, {send(input(0))}), with(1, {send(input(1))})},
                         {with(0, {recv(output(0)), recv(output(1))})}, 2),
                Rule::matching, {0, 1, 0}, "sends to rank 1 on channel 0, as worker 0 does");
  expect_broken(transfer({with(1, {send(input(0)), send(input(1))})},
                         {with(0, {recv(output(0))}), with(0, {recv(output(1))})}, 2),
                Rule::matching, {1, 1, 0}, "receives from rank 0");
  expect_broken(
      make_flat("", kPair, {part({alone({signal(1)}), alone({signal(1)})}), part({alone({wait(0), wait(0)})})}),
      Rule::matching, {0, 1, 0}, "signals rank 1");
}

TEST(CheckMatching, finds_signals_and_waits_that_differ_in_number) {
  expect_broken(make_flat("", kPair, {part({alone({signal(1), signal(1)})}), part({alone({wait(0)})})}), Rule::matching,
                {0, 0, 1}, "waits for only 1 signals");
  expect_broken(make_flat("", kPair, {part({alone({signal(1)})}), part({alone({wait(0), wait(0)})})}), Rule::matching,
                {1, 0, 1}, "sends only 1 signals");
}

TEST(CheckDeadlock, tells_a_cycle_of_receives_before_sends) {
  const auto rank_part = [](int peer) {
    return part({with(peer, {completing(recv_reduce(input(0), output(0))), send(input(0))})});
  };
  expect_broken(make_flat("", kPair, {rank_part(1), rank_part(0)}), Rule::deadlock, {0, 0, 0},
                "rank 0 worker 0 step 0 (recv_reduce from rank 1) waits for rank 1 worker 0 step 1 (send to rank 0), "
                "which comes after step 0 (recv_reduce from rank 0), which waits for rank 0 worker 0 step 1 (send to "
                "rank 1), which comes after step 0");
}

TEST(CheckDeadlock, finds_slots_that_run_out) {
  const auto rank_part = [](int peer) {
    return part(
        {with(peer, {send(input(0)), send(input(1)), send(input(2)), completing(recv_reduce(input(0), output(0))),
                     completing(recv_reduce(input(1), output(1))), completing(recv_reduce(input(2), output(2)))})});
  };
  const Program program =
      out_of_place_only(make_flat("", {Collective::all_reduce, 2, 0, 3}, {rank_part(1), rank_part(0)}));
  expect_broken(program, Rule::deadlock, {0, 0, 2},
                "waits for rank 1 worker 0 step 3 (recv_reduce from rank 0) to free a slot");
  CheckOptions roomy;
  roomy.slots = 3;
  EXPECT_TRUE(check(program, roomy).ok());
}

TEST(CheckDeadlock, finds_slots_that_run_out_within_a_step) {
  const auto rank_part = [](int peer) {
    return part({with(peer, {send(input(0, 3)), completing(recv_reduce(input(0, 3), output(0, 3)))})});
  };
  const Program program = make_flat("", {Collective::all_reduce, 2, 0, 3}, {rank_part(1), rank_part(0)});
  expect_broken(program, Rule::deadlock, {0, 0, 0}, "to free a slot");
}

TEST(CheckDeadlock, finds_dependencies_in_a_circle) {
  expect_broken(
      make_flat("", kOne, {part({alone({after(copy(input(0), output(0)), 1, 0)}), alone({after(nop(), 0, 0)})})}),
      Rule::deadlock, {0, 0, 0}, "(copy) waits for rank 0 worker 1 step 0 (nop), which waits for rank 0");
}

TEST(CheckDeadlock, finds_waits_before_signals) {
  expect_broken(make_flat("", kPair, {part({alone({wait(1), signal(1)})}), part({alone({wait(0), signal(0)})})}),
                Rule::deadlock, {0, 0, 0}, "(wait for rank 1) waits for rank 1 worker 0 step 1 (signal to rank 0)");
}

TEST(CheckDeadlock, shortens_a_long_story) {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < 40; ++rank)
    parts.push_back(part({between((rank + 39) % 40, (rank + 1) % 40, {recv_copy_send(output(0))})}));
  expect_broken(make_flat("", {Collective::broadcast, 40, 0, 1}, parts), Rule::deadlock, {0, 0, 0},
                "through 34 more workers back to rank 0 worker 0 step 0");
}

}  // namespace
}  // namespace tutti
