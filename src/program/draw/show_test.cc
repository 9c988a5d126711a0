#include "program/draw/show.hpp"

#include <gtest/gtest.h>

#include "program/program_test_kit.hpp"

namespace tutti {
namespace {

TEST(ShowText, ListsStepsInAlignedColumns) {
  const std::string text = show_text(ring_all_gather(3), 1);
  EXPECT_EQ(text, R"(ring: all_gather, 3 ranks, 1 chunk; in place or not

rank 0
  worker 0, channel 0
    step  kind            peer       from      to        notes
       0  send            -> 1       output 0            after w1 s0
       1  recv_copy_send  <- 2 -> 1            output 2
       2  recv            <- 2                 output 1
  worker 1, channel 0
    step  kind  peer  from     to        notes
       0  copy        input 0  output 0

... and 2 more ranks
)");
}

TEST(ShowSvg, DrawsEveryStepAndTransferAndEscapesText) {
  Program program = ring_all_reduce(4);
  program.name = "a < b & c";
  const std::string svg = show_svg(program);
  const auto count = [&svg](const std::string& piece) {
    int found = 0;
    for (std::size_t at = svg.find(piece); at != std::string::npos; at = svg.find(piece, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<title>"), 4 * 7);
  EXPECT_EQ(count("marker-end=\"url(#t)\""), 4 * 6);
  EXPECT_EQ(count("a &lt; b &amp; c"), 1);
}

TEST(ShowSvg, MarksStepsThatWaitInACircle) {
  Program program = ring_all_gather(3);
  program.part = [inner = program.part](int rank) {
    RankProgram part = inner(rank);
    std::swap(part.workers[0].steps.front(), part.workers[0].steps.back());
    return part;
  };
  EXPECT_NE(show_svg(program).find("#dc2626"), std::string::npos);
}

}  // namespace
}  // namespace tutti
