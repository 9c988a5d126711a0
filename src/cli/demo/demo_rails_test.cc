#include "cli/demo/demo_rails.hpp"

#include <gtest/gtest.h>

namespace tutti::cli {
namespace {

// 1 Gb/s on each rail; rail 1 is down from 2 s to 4 s and carries again at 4.1 s. An operation takes 10 ms.
std::vector<RailSample> samples_of_a_failure() {
  std::vector<RailSample> samples = {{}};
  for (int i = 1; i <= 300; ++i) {
    RailSample next = samples.back();
    next.seconds = i * 0.02;
    next.bytes[0] += 2'500'000;
    if (i <= 100 || i > 205) next.bytes[1] += 2'500'000;
    samples.push_back(next);
  }
  return samples;
}

TEST(RailStory, TellsPauseAndBandwidth) {
  std::vector<double> ends;
  for (int i = 0; i < 600; ++i) ends.push_back(i * 0.01 + (i > 200 ? 0.03 : 0));
  const auto samples = samples_of_a_failure();
  const RailStory story(samples, ends, 1, 2.0, 4.0);
  EXPECT_NEAR(story.pause, 0.03, 1e-6);
  EXPECT_NEAR(story.idle, 0.1, 0.021);
  EXPECT_NEAR(story.before, 2.0, 0.01);
  EXPECT_NEAR(story.without, 1.0, 0.01);
  EXPECT_NEAR(story.after, 2.0, 0.01);
}

TEST(RailStory, SaysThatARailNeverCameBack) {
  auto samples = samples_of_a_failure();
  for (std::size_t i = 101; i < samples.size(); ++i) samples[i].bytes[1] = samples[100].bytes[1];
  EXPECT_LT(RailStory(samples, {}, 1, 2.0, 4.0).idle, 0);
}

// Code points, which is what a terminal's columns are here.
std::size_t width_of(const std::string& line) {
  std::size_t width = 0;
  for (const char c : line) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return width;
}

TEST(RailChart, ShowsBothSharesWithinEightyColumns) {
  RailChart chart(6, false);
  for (int column = 0; column < RailChart::kColumns; ++column) {
    if (column == 20) chart.mark("rail1 down");
    if (column == 40) chart.mark("rail1 up");
    chart.add(column >= 20 && column < 40 ? RailRates{1.0, 0.0} : RailRates{1.0, 1.0});
  }
  const auto lines = chart.lines();
  for (const std::string& line : lines) EXPECT_LE(width_of(line), 79u) << line;
  EXPECT_EQ(lines[1], " 2.0 Gb/s ┤▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒                    ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒");
  EXPECT_EQ(lines[8], "          │████████████████████████████████████████████████████████████");
  EXPECT_EQ(lines.back(), "                               ↑rail1 down         ↑rail1 up");
}

TEST(RailChart, GrowsWithWhatItIsTold) {
  RailChart chart(6, false);
  EXPECT_EQ(chart.lines().size(), 11u);
  chart.add({5.0, 4.5});
  const auto lines = chart.lines();
  EXPECT_EQ(lines.size(), 11u);
  EXPECT_EQ(lines[1], "10.0 Gb/s ┤▒");
}

}  // namespace
}  // namespace tutti::cli
