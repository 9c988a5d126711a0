// Programs that run and go wrong: each breaks one of races, values, result, and the checker says where and why.
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

TEST(CheckRaces, finds_workers_that_forgot_to_wait_for_each_other) {
  const auto program = [](const Step& copying) {
    return transfer({with(1, {send(input(0))})}, {with(0, {recv(scratch(0))}), alone({copying})}, 1, 1);
  };
  expect_broken(program(copy(scratch(0), output(0))), Rule::races, {1, 0, 0},
                "writes scratch 0 while rank 1 worker 1 step 0 may still read it");
  EXPECT_TRUE(check(program(after(copy(scratch(0), output(0)), 0, 0))).ok());
}

TEST(CheckRaces, finds_two_writers) {
  expect_broken(make_flat("", kOne, {part({alone({copy(input(0), output(0))}), alone({copy(input(0), output(0))})})}),
                Rule::races, {0, 1, 0}, "writes output 0 while rank 0 worker 0 step 0 may still write it");
}

TEST(CheckRaces, finds_a_peer_that_reads_before_it_is_told) {
  // Rank 1 reads what rank 0 stores, but hears of it only afterwards.
  const auto program = [](std::vector<Step> reader) {
    return out_of_place_only(
        make_flat("", {Collective::broadcast, 2, 0, 1},
                  {part({alone({copy(input(0), output(0)), signal(1), wait(1)})}), part({alone(std::move(reader))})}));
  };
  expect_broken(program({copy(at(0, output(0)), output(0)), wait(0), signal(0)}), Rule::races, {1, 0, 0},
                "reads rank 0's output 0 while rank 0 worker 0 step 0 may still write it");
  EXPECT_TRUE(check(program({wait(0), copy(at(0, output(0)), output(0)), signal(0)})).ok());
}

TEST(CheckRaces, finds_a_rank_that_may_return_while_it_is_read) {
  expect_broken(make_flat("", {Collective::broadcast, 2, 0, 1},
                          {part({alone({copy(input(0), output(0)), signal(1)})}),
                           part({alone({copy(at(0, input(0)), output(0)), wait(0)})})}),
                Rule::races, {1, 0, 0}, "reads rank 0's input 0, but rank 0 may return before");
}

TEST(CheckRaces, lets_scratch_be_read_later_only_where_all_hear_of_all) {
  // Rank 0 does not wait for its readers. With two ranks each hears of the other; of three, the readers do not.
  const auto reader = [](std::vector<Step> first) {
    first.insert(first.end(), {wait(0), copy(at(0, scratch(0)), output(0))});
    return part({alone(std::move(first))});
  };
  const auto program = [&](int ranks) {
    std::vector<Step> root{copy(input(0), scratch(0)), copy(input(0), output(0))};
    std::vector<RankProgram> parts(1);
    for (int rank = 1; rank < ranks; ++rank) {
      root.push_back(signal(rank));
      root.push_back(wait(rank));
      parts.push_back(reader({signal(0)}));
    }
    parts[0] = part({alone(std::move(root))}, 1);
    return out_of_place_only(make_flat("", {Collective::broadcast, ranks, 0, 1}, std::move(parts)));
  };
  EXPECT_TRUE(check(program(2)).ok());
  expect_broken(program(3), Rule::races, {1, 0, 2}, "reads rank 0's scratch 0, but rank 0 may return before");
}

TEST(CheckRaces, finds_a_rank_that_may_return_while_it_is_written) {
  expect_broken(make_flat("", {Collective::broadcast, 2, 0, 1},
                          {part({alone({copy(input(0), output(0)), wait(1), copy(input(0), at(1, output(0)))})}),
                           part({alone({signal(0)})})}),
                Rule::races, {0, 0, 2}, "writes rank 1's output 0, but rank 1 may return before");
}

TEST(CheckRaces, does_not_take_slots_for_order) {
  // With one slot, rank 0's second send comes after rank 1's first receive; with more it may not.
  const Program program = make_flat(
      "", {Collective::point_to_point, 2, 0, 2},
      {part({with(1, {send(input(0)), send(input(1))}),
             alone({after(copy(input(0), at(1, scratch(0))), 0, 1), signal(1), wait(1)})}),
       part({with(0, {recv(scratch(0)), recv(output(1)), wait(0), copy(scratch(0), output(0)), signal(0)})}, 1)});
  CheckOptions options;
  options.slots = 1;
  expect_broken(program, Rule::races, {0, 1, 0},
                "writes rank 1's scratch 0 while rank 1 worker 0 step 0 may still write it", options);
}

TEST(CheckRaces, keeps_other_ranks_from_what_is_sent_until_it_is_received) {
  // Rank 2 overwrites rank 0's scratch once rank 0 has sent it, though rank 1 may not have received it.
  const auto program = [](std::vector<Step> receiver, std::vector<Step> sender, int told_by) {
    return out_of_place_only(make_flat(
        "", {Collective::broadcast, 3, 0, 1},
        {part({with(1, std::move(sender)), with(2, {after(send(input(0)), 0, 1), copy(input(0), output(0))})}, 1),
         part({with(0, std::move(receiver))}),
         part({with(0, {recv(output(0)), wait(told_by), copy(output(0), at(0, scratch(0))), signal(0)})})}));
  };
  expect_broken(program({recv(output(0))}, {copy(input(0), scratch(0)), send(scratch(0)), signal(2), wait(2)}, 0),
                Rule::races, {2, 0, 2}, "writes rank 0's scratch 0 while rank 0 worker 0 step 1 may still read it");
  const CheckReport fixed =
      check(program({recv(output(0)), signal(2)}, {copy(input(0), scratch(0)), send(scratch(0)), wait(2)}, 1));
  EXPECT_TRUE(fixed.ok()) << fixed.violation->to_string();
}

TEST(CheckRaces, finds_a_step_that_overwrites_what_it_still_reads) {
  expect_broken(make_flat("", {Collective::all_reduce, 1, 0, 3},
                          {part({alone({copy(input(0, 3), scratch(0, 3)), copy(scratch(0, 2), scratch(1, 2))})}, 3)}),
                Rule::races, {0, 0, 1}, "writes 2 chunks from scratch 1 on, which overlap those from scratch 0 on");
}

TEST(CheckRaces, finds_that_chunks_of_one_step_are_under_way_at_the_same_time) {
  // What rank 0 sends comes back through rank 1 while later chunks of the same send are still to be read.
  const Program program = make_flat("", {Collective::broadcast, 2, 0, 2},
                                    {part({with(1, {copy(input(0, 2), scratch(0, 2)), send(scratch(0, 2))}),
                                           [] {
                                             Worker back = with(1, {recv(scratch(1)), recv(scratch(2))}, 0);
                                             back.send_peer = kNobody;
                                             return back;
                                           }(),
                                           alone({copy(input(0, 2), output(0, 2))})},
                                          3),
                                     part({with(0, {recv(output(0, 2)), send(output(0)), send(output(1))})})});
  EXPECT_TRUE(check(program).ok()) << "rank 1 sends only once it has received everything";
  const Program streaming = make_flat("", program.shape,
                                      {[&] {
                                         RankProgram first = program.part(0);
                                         first.workers[1].steps = {recv(scratch(1, 2))};
                                         return first;
                                       }(),
                                       part({with(0, {recv_copy_send(output(0, 2))})})});
  expect_broken(streaming, Rule::races, {0, 1, 0}, "writes scratch 1 while rank 0 worker 0 step 1 may still read it");
}

TEST(CheckRaces, follows_chunks_that_ranks_pass_on_one_by_one) {
  // What rank 0 sends comes back through both others: a chunk that is back was read, and so were those before it.
  const auto program = [](Cells sent, Cells back) {
    Worker to_1 = with(1, {copy(input(0, 2), sent), send(sent)});
    Worker from_2 = with(2, {recv(back)});
    to_1.recv_peer = from_2.send_peer = kNobody;
    return make_flat(
        "", {Collective::broadcast, 3, 0, 2},
        {part({to_1, from_2, alone({copy(input(0, 2), output(0, 2))})}, 3),
         part({between(0, 2, {recv_copy_send(output(0, 2))})}), part({between(1, 0, {recv_copy_send(output(0, 2))})})});
  };
  EXPECT_TRUE(check(program(scratch(0, 2), scratch(0, 2))).ok());
  EXPECT_TRUE(check(program(scratch(1, 2), scratch(0, 2))).ok());
  expect_broken(program(scratch(0, 2), scratch(1, 2)), Rule::races, {0, 1, 0},
                "writes scratch 1 while rank 0 worker 0 step 1 may still read it");
}

TEST(CheckValues, finds_a_read_of_what_nothing_has_written) {
  expect_broken(make_flat("", kOne, {part({alone({copy(scratch(0), output(0))})}, 1)}), Rule::values, {0, 0, 0},
                "reads scratch 0, which nothing has written");
  expect_broken(transfer({with(1, {send(input(0))})}, {with(0, {copy(output(0), scratch(0)), recv(output(0))})}, 1, 1),
                Rule::values, {1, 0, 0}, "reads output 0, which nothing has written");
}

TEST(CheckValues, finds_a_contribution_counted_twice) {
  expect_broken(make_flat("", kPair,
                          {part({with(1, {send(input(0)), completing(recv_reduce(input(0), scratch(0))),
                                          recv_reduce(scratch(0), output(0))})},
                                1),
                           part({with(0, {recv(output(0)), send(input(0)), send(input(0))})})}),
                Rule::values, {0, 0, 2}, "counts rank 1's contribution to chunk 0 twice");
  expect_broken(make_flat("", {Collective::all_reduce, 1, 0, 1},
                          {part({alone({reduce({input(0), input(0), input(0)}, {output(0)})})})}),
                Rule::values, {0, 0, 0}, "counts rank 0's contribution");
}

TEST(CheckValues, finds_a_double_count_of_partial_sums) {
  // Ranks 0 and 1 both bring the sum of themselves and rank 2.
  const Program program = make_flat(
      "", {Collective::reduce, 3, 0, 1},
      {part({with(2, {recv_reduce(input(0), scratch(0))}), with(1, {after(recv_reduce(scratch(0), output(0)), 0, 0)})},
            1),
       part({with(2, {recv_reduce(input(0), scratch(0))}), with(0, {after(send(scratch(0)), 0, 0)})}, 1),
       part({with(0, {send(input(0))}), with(1, {send(input(0))})})});
  expect_broken(program, Rule::values, {0, 1, 0}, "counts rank 2's contribution to chunk 0 twice");
}

TEST(CheckValues, finds_a_chunk_in_the_wrong_place) {
  expect_broken(transfer({with(1, {send(input(0)), send(input(1))})}, {with(0, {recv(output(1)), recv(output(0))})}, 2),
                Rule::values, {1, 0, 0}, "stores chunk 0 of rank 0 in output 1, the place of chunk 1");
}

TEST(CheckValues, finds_different_chunks_reduced_with_each_other) {
  const auto rank_part = [](int peer) {
    return part({with(peer, {send(input(0)), completing(recv_reduce(input(1), output(1)))})});
  };
  expect_broken(make_flat("", {Collective::all_reduce, 2, 0, 2}, {rank_part(1), rank_part(0)}), Rule::values, {1, 0, 1},
                "reduces chunk 0 of rank 0 with chunk 1 of rank 1");
}

TEST(CheckValues, finds_arithmetic_where_nothing_is_reduced) {
  expect_broken(make_flat("", {Collective::all_gather, 2, 0, 1},
                          {part({with(1, {send(input(0)), recv_reduce(input(0), output(0))})}),
                           part({with(0, {send(input(0)), recv(output(0))})})}),
                Rule::values, {0, 0, 1}, "a recv_reduce in all_gather");
}

TEST(CheckValues, finds_a_missing_mark_of_completion) {
  expect_broken(make_flat("", kPair,
                          {part({with(1, {send(input(0)), recv_reduce(input(0), output(0))})}),
                           part({with(0, {send(input(0)), completing(recv_reduce(input(0), output(0)))})})}),
                Rule::values, {0, 0, 1}, "completes its reduction, but is not marked");
}

TEST(CheckValues, finds_misplaced_marks_of_completion) {
  const auto chain = [](Step first, Step last) {
    return make_flat("", {Collective::reduce, 3, 2, 1},
                     {part({with(1, {send(input(0))})}), part({between(0, 2, {std::move(first)})}),
                      part({with(1, {std::move(last)})})});
  };
  const Step middle = recv_reduce_send(input(0));
  const Step end = recv_reduce(input(0), output(0));
  EXPECT_TRUE(check(chain(middle, completing(end))).ok());
  expect_broken(chain(completing(middle), completing(end)), Rule::values, {1, 0, 0},
                "marked as completing, but the contributions of ranks 2 are missing");
  expect_broken(transfer({with(1, {completing(send(input(0)))})}, {with(0, {recv(output(0))})}), Rule::values,
                {0, 0, 0}, "a send reduces nothing");
}

TEST(CheckValues, finds_a_completion_marked_twice_on_the_way) {
  // A reduce with one source is a copy: average would be scaled again.
  const Program program = make_flat(
      "", {Collective::reduce, 2, 0, 1},
      {part({with(1, {completing(recv_reduce(input(0), scratch(0))), completing(reduce({scratch(0)}, {output(0)}))})},
            1),
       part({with(0, {send(input(0))})})});
  expect_broken(program, Rule::values, {0, 0, 1}, "copies what was complete before");
}

TEST(CheckValues, finds_a_step_that_writes_its_input) {
  const Program program = make_flat(
      "", kPair,
      {part({with(1, {send(input(0)), completing(recv_reduce(input(0), input(0))), copy(input(0), output(0))})}),
       part({with(0, {send(input(0)), completing(recv_reduce(input(0), output(0)))})})});
  expect_broken(program, Rule::values, {0, 0, 1}, "writes its input: input 0 is no output");
  EXPECT_TRUE(check(in_place_only(program)).ok()) << "in place, its input is its output";
}

TEST(CheckInPlace, finds_an_input_overwritten_before_it_is_sent) {
  // Out of place the second send still finds the input; in place it finds the sum.
  const Program program =
      make_flat("", {Collective::reduce, 2, 0, 1},
                {part({with(1, {completing(recv_reduce(input(0), output(0))), send(input(0))})}),
                 part({with(0, {send(input(0)), completing(recv_reduce(input(0), scratch(0)))})}, 1)});
  EXPECT_TRUE(check(out_of_place_only(program)).ok());
  expect_broken(program, Rule::values, {1, 0, 1}, "counts rank 1's contribution to chunk 0 twice (in place)");
}

TEST(CheckInPlace, finds_a_race_that_only_aliasing_makes) {
  const auto rank_part = [](int peer) {
    Worker sender = with(peer, {send(input(0))});
    Worker receiver = with(peer, {completing(recv_reduce(input(0), output(0)))});
    sender.recv_peer = kNobody;
    receiver.send_peer = kNobody;
    return part({sender, receiver});
  };
  const Program program = make_flat("", kPair, {rank_part(1), rank_part(0)});
  EXPECT_TRUE(check(out_of_place_only(program)).ok());
  expect_broken(program, Rule::races, {1, 1, 0},
                "writes output 0 while rank 1 worker 0 step 0 may still read it (in place)");
}

TEST(CheckInPlace, guards_inputs_that_are_no_outputs) {
  const auto rank_part = [](int rank) {
    const int peer = 1 - rank;
    return part({with(
        peer, {send(input(peer)), completing(recv_reduce(input(rank), output(0))), copy(output(0), input(rank))})});
  };
  const Shape shape{Collective::reduce_scatter, 2, 0, 1};
  EXPECT_TRUE(check(in_place_only(make_flat("", shape, {rank_part(0), rank_part(1)}))).ok());
  RankProgram gives_more = rank_part(1);
  RankProgram takes_more = rank_part(0);
  gives_more.workers[0].steps.push_back(send(output(0)));
  takes_more.workers[0].steps.push_back(recv(input(1)));
  expect_broken(in_place_only(make_flat("", shape, {takes_more, gives_more})), Rule::values, {0, 0, 3},
                "writes its input: input 1 is no output (in place)");
}

TEST(CheckResult, finds_an_output_never_written) {
  expect_broken(transfer({with(1, {send(input(0))})}, {with(0, {recv(output(0))})}, 2), Rule::result, {1, -1, -1},
                "output 1 is never written; chunk 1 belongs there");
}

TEST(CheckResult, finds_an_incomplete_reduction) {
  expect_broken(make_flat("", {Collective::all_reduce, 3, 0, 1},
                          {part({with(1, {send(input(0)), recv_reduce(input(0), output(0))})}),
                           part({with(0, {send(input(0)), recv_reduce(input(0), output(0))})}),
                           part({alone({copy(input(0), output(0))})})}),
                Rule::result, {0, 0, 1},
                "rank 0's output 0 ends with chunk 0 of ranks 0-1 without the contributions of ranks 2");
}

TEST(CheckResult, finds_a_barrier_that_does_not_wait_for_all) {
  expect_broken(make_flat("", {Collective::barrier, 2, 0, 1},
                          {part({with(1, {recv_reduce(input(0), output(0))})}),
                           part({with(0, {send(input(0)), copy(input(0), output(0))})})}),
                Rule::result, {1, 0, 1}, "without the contributions of ranks 0");
}

TEST(CheckResult, finds_the_input_of_the_wrong_rank) {
  // In an all_to_all over two ranks in place, nothing at all is done.
  expect_broken(in_place_only(make_flat("", {Collective::all_to_all, 2, 0, 1}, {part({}), part({})})), Rule::result,
                {0, -1, -1}, "rank 0's output 1 ends with chunk 0 from rank 0 to rank 1 of rank 0 instead of");
}

}  // namespace
}  // namespace tutti
