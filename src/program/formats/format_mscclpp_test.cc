#include "program/formats/format_mscclpp.hpp"

#include "algorithm/algorithm.hpp"
#include "program/formats/mscclpp_executor_test_kit.hpp"
#include "program/program_test_kit.hpp"

namespace tutti {
namespace {

/// Runs the plan with several orders of its thread blocks; false where the program does not fit into one.
testing::AssertionResult runs_as_plan(const Program& program, bool in_place, std::vector<int> node_of_rank = {}) {
  const auto text = save_mscclpp(program, {std::move(node_of_rank), in_place, 2});
  if (!text) return testing::AssertionFailure() << text.error().message;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    MscclppExecutor(*text, program.shape, seed).run(3);
  }
  return testing::AssertionSuccess();
}

std::vector<int> nodes(int ranks, int per_node) {
  std::vector<int> result;
  for (int rank = 0; rank < ranks; ++rank) result.push_back(rank / per_node);
  return result;
}

TEST(MscclppPlans, DoWhatTheirProgramsPromise) {
  for (const bool in_place : {false, true}) {
    EXPECT_TRUE(runs_as_plan(ring_all_gather(4), in_place));
    EXPECT_TRUE(runs_as_plan(ring_all_gather(3, 2), in_place, nodes(3, 2)));
    EXPECT_TRUE(runs_as_plan(ring_all_reduce(3), in_place));
    EXPECT_TRUE(runs_as_plan(ring_all_reduce(4), in_place, nodes(4, 2)));
    EXPECT_TRUE(runs_as_plan(chain_broadcast(4, 3), in_place));
  }
}

TEST(MscclppPlans, HoldAllTwoSidedAlgorithmsOfFewRanks) {
  int plans = 0;
  for (const Algorithm& algorithm : algorithms())
    for (const Collective collective : {Collective::all_reduce, Collective::reduce, Collective::broadcast,
                                        Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all})
      for (const int ranks : {2, 3, 4, 6}) {
        const Layout layout = Layout::blocks(ranks, 2 - ranks % 2);
        if (!algorithm.supports(collective, layout)) continue;
        const auto program = make_program(algorithm.name, collective, layout, {.root = ranks - 1});
        ASSERT_TRUE(program) << program.error().message;
        if (program->one_sided) continue;
        SCOPED_TRACE(std::string(algorithm.name) + " " + std::string(name_of(collective)) + " " +
                     std::to_string(ranks));
        for (const bool in_place : {false, true}) {
          if (!(in_place ? program->in_place : program->out_of_place)) continue;
          const auto fits = runs_as_plan(*program, in_place, nodes(ranks, 2));
          EXPECT_TRUE(fits || std::string_view(fits.message()).find("MSCCL++ plans hold") != std::string_view::npos)
              << fits.message();
          plans += fits ? 1 : 0;
        }
      }
  EXPECT_GT(plans, 100);
}

TEST(MscclppPlans, PutStraightWhereNothingWasBefore_AndIntoLandingCellsElsewhere) {
  const auto scratch_of = [](const Program& program) {
    const auto plan = nlohmann::json::parse(save_mscclpp(program).value());
    return plan.at("gpus").at(0).at("scratch_chunks").get<int>();
  };
  EXPECT_EQ(scratch_of(ring_all_gather(4)), 0);
  EXPECT_EQ(scratch_of(ring_all_reduce(4)), 2);
}

TEST(MscclppPlans, SplitLongWorkers) {
  EXPECT_TRUE(runs_as_plan(ring_all_gather(30), false));
  EXPECT_TRUE(runs_as_plan(ring_all_reduce(16), true, nodes(16, 8)));
}

TEST(MscclppPlans, UseMemoryWithinANodeAndPortsBetweenNodes) {
  const auto text = save_mscclpp(ring_all_gather(4), {.node_of_rank = nodes(4, 2)}).value();
  const auto plan = nlohmann::json::parse(text);
  for (const auto& gpu : plan.at("gpus")) {
    const int rank = gpu.at("id");
    for (const auto& list : gpu.at("channels"))
      for (const int peer : list.at("connected_to"))
        EXPECT_EQ(list.at("channel_type"), peer / 2 == rank / 2 ? "memory" : "port") << rank << " to " << peer;
  }
}

TEST(MscclppPlans, AreRefusedWithTheStepInTheWay) {
  const auto error = [](const Program& program, const MscclppOptions& options = {}) {
    const auto text = save_mscclpp(program, options);
    return text ? std::string("none") : text.error().message;
  };
  const std::string too_long = error(ring_all_gather(240));
  EXPECT_NE(too_long.find("rank 0 worker 0 step"), std::string::npos) << too_long;
  EXPECT_NE(too_long.find("semaphores; MSCCL++ plans hold 16"), std::string::npos) << too_long;
  EXPECT_NE(error(one_shot_all_reduce(3)).find("one-sided"), std::string::npos);
  EXPECT_NE(error(ring_all_gather(4), {.node_of_rank = {0, 0}}).find("2 ranks are given; the program has 4"),
            std::string::npos);
  const Program gather = make_program("binomial", Collective::gather, Layout::one_host(4)).value();
  EXPECT_NE(error(gather).find("no gather"), std::string::npos);
  Program broken = ring_all_gather(3);
  broken.shape.collective = Collective::all_to_all;
  EXPECT_NE(error(broken), "none");
}

}  // namespace
}  // namespace tutti
