#include "simulation/timeline.hpp"

#include <gtest/gtest.h>

#include <string>

#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Timeline, HasABarForEachFlightInTheColourOfItsSlowestLink) {
  const Topology topology = make_builtin("ndv2:nodes=2").value();
  Routes routes(topology);
  Simulation simulation;
  simulation.seconds = 4e-6;
  simulation.pieces = 3;
  simulation.flights = {{.from = 0, .to = 1, .begins = 0, .ends = 2e-6},
                        {.from = 0, .to = 8, .begins = 1e-6, .ends = 4e-6},
                        {.from = 1, .to = 2, .begins = 2e-6, .ends = 3e-6}};
  const std::string picture = timeline_svg(simulation, routes, "ring & <friends>");
  EXPECT_EQ(count_of(picture, "fill-opacity"), 3U);
  EXPECT_EQ(count_of(picture, ">nvlink</text>"), 1U);
  EXPECT_EQ(count_of(picture, ">pcie</text>"), 1U) << "the first of the slowest";
  EXPECT_EQ(count_of(picture, "0 to 8, channel 0"), 1U);
  EXPECT_EQ(count_of(picture, "ring &amp; &lt;friends&gt;"), 1U);
  EXPECT_EQ(count_of(picture, "rx=\"3\""), 16U) << "a row for each rank";
}

TEST(Timeline, SaysWhatItLeavesOut) {
  const Topology topology = make_builtin("ring:100").value();
  Routes routes(topology);
  Simulation simulation;
  simulation.seconds = 1;
  simulation.flights.assign(30'000, {.from = 0, .to = 1, .begins = 0, .ends = 1});
  const std::string picture = timeline_svg(simulation, routes, "many");
  EXPECT_EQ(count_of(picture, "fill-opacity"), 20'000U);
  EXPECT_NE(picture.find("the first 64 of 100 ranks shown; the first 20000 of their 30000 pieces shown"),
            std::string::npos);
}

TEST(Timeline, OfNothingIsAPictureToo) {
  const Topology topology = make_builtin("ring:2").value();
  Routes routes(topology);
  EXPECT_EQ(count_of(timeline_svg({}, routes, "nothing"), "</svg>"), 1U);
}

}  // namespace
}  // namespace tutti
