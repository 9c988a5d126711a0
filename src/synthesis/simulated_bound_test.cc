// No simulated time is below a bound: two ways to reckon with one machine, which share no code.
#include <gtest/gtest.h>

#include <string>

#include "algorithm/algorithm.hpp"
#include "bound/bound.hpp"
#include "simulation/references.hpp"
#include "simulation/simulate.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

bool has_all_routes(Routes& routes) {
  const int ranks = routes.topology().ranks();
  for (int rank = 0; rank < ranks; ++rank)
    if (static_cast<int>(routes.reached(rank).size()) + 1 < ranks) return false;
  return true;
}

void price_references(Routes& routes, Collective collective, const Bound& limit) {
  for (const Reference& one : reference_programs(routes, collective))
    for (const std::uint64_t bytes : {1U << 10, 1U << 26}) {
      const auto done = simulate(one.program, routes, {.bytes = bytes, .tile = one.program.tile});
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_GE(done->seconds * (1 + 1e-9), limit.seconds(static_cast<double>(bytes)))
          << one.name << " " << name_of(collective) << " of " << bytes << " bytes on " << routes.topology().name();
    }
}

/// How many programs of the library were priced.
int price_all(Routes& routes, const Layout& layout, Collective collective, const Bound& limit) {
  int priced = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.supports(collective, layout)) continue;
    const auto program = make_program(algorithm.name, collective, layout);
    if (!program || program->one_sided) continue;
    for (const std::uint64_t bytes : {0U, 1U << 10, 1U << 20, 1U << 28})
      for (const std::uint64_t tile : {0U, 1U << 20}) {
        const auto done = simulate(*program, routes, {.bytes = bytes, .tile = tile});
        if (!done) {
          // Where not all GPUs have a route to each other, some programs cannot run as they are.
          EXPECT_NE(done.error().message.find("no route"), std::string::npos) << done.error().message;
          EXPECT_FALSE(has_all_routes(routes)) << algorithm.name;
          continue;
        }
        ++priced;
        EXPECT_GE(done->seconds * (1 + 1e-9), limit.seconds(static_cast<double>(bytes)))
            << algorithm.name << " " << name_of(collective) << " of " << bytes << " bytes on "
            << routes.topology().name();
      }
  }
  return priced;
}

class SimulatedOn : public testing::TestWithParam<const char*> {};

TEST_P(SimulatedOn, NoProgramIsBelowTheBound) {
  const Topology topology = make_builtin(GetParam()).value();
  Routes routes(topology);
  const Layout layout = layout_of(topology);
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::broadcast,
        Collective::reduce, Collective::all_to_all, Collective::gather, Collective::scatter}) {
    const Bound limit = bound(topology, collective).value();
    price_references(routes, collective, limit);
    const int priced = price_all(routes, layout, collective, limit);
    EXPECT_GE(priced, has_all_routes(routes) ? 8 : 0) << name_of(collective);
  }
}

INSTANTIATE_TEST_SUITE_P(Builtins, SimulatedOn,
                         testing::Values("ndv2:nodes=2", "dgx2:nodes=2", "dgx-a100:nodes=2", "dgx-h100:nodes=2",
                                         "torus2d:4x4", "ring:8", "hypercube:8"));

TEST(SimulatedRing, ReachesTheBoundOfARing) {
  // One way round uses half of the links: the bound is half of what the ring takes, but for latencies.
  const Topology topology = make_builtin("ring:8").value();
  Routes routes(topology);
  const auto program = make_program("ring", Collective::all_gather, layout_of(topology)).value();
  const double bytes = 1 << 28;
  const double seconds = simulate(program, routes, {.bytes = 1 << 28}).value().seconds;
  EXPECT_NEAR(seconds / bound(topology, Collective::all_gather).value().seconds(bytes), 2, 0.01);
}

}  // namespace
}  // namespace tutti
