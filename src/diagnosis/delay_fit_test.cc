#include "diagnosis/delay_fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tutti::diagnosis {
namespace {

using Kind = SlowPart::Kind;

/// Every process sends to every other, on so many paths, with 2 % of noise.
std::vector<DelayFacts> dense(int processes, int paths) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.02);
  std::vector<DelayFacts> delays;
  for (int source = 0; source < processes; ++source)
    for (int destination = 0; destination < processes; ++destination)
      for (int path = 0; path < paths; ++path)
        if (source != destination) delays.push_back({source, destination, path, false, std::exp(noise(random))});
  return delays;
}

/// Each process sends to the next only.
std::vector<DelayFacts> ring(int processes) {
  std::mt19937 random(2);
  std::normal_distribution<double> noise(0, 0.02);
  std::vector<DelayFacts> delays;
  for (int source = 0; source < processes; ++source)
    delays.push_back({source, (source + 1) % processes, 0, false, std::exp(noise(random))});
  return delays;
}

template <typename Where>
void slow_down(std::vector<DelayFacts>& delays, double factor, const Where& where) {
  for (DelayFacts& delay : delays)
    if (where(delay)) delay.relative *= factor;
}

TEST(DelayFit, finds_nothing_where_there_is_only_noise) {
  EXPECT_TRUE(fit_delays({}, 0, 1.08).empty());
  EXPECT_TRUE(fit_delays(dense(20, 2), 20, 1.08).empty());
  EXPECT_TRUE(fit_delays(ring(64), 64, 1.08).empty());
}

TEST(DelayFit, tells_cells_rows_columns_and_paths_apart) {
  const auto only = [](std::vector<DelayFacts> delays) {
    const auto parts = fit_delays(delays, 8, 1.08);
    EXPECT_EQ(parts.size(), 1U);
    return parts.empty() ? SlowPart{} : parts.front();
  };
  auto delays = dense(8, 2);
  slow_down(delays, 1.5, [](const auto& each) { return each.source == 3; });
  EXPECT_EQ(only(delays).kind, Kind::sender);
  EXPECT_EQ(only(delays).source, 3);
  EXPECT_NEAR(only(delays).factor, 1.5, 0.03);
  delays = dense(8, 2);
  slow_down(delays, 1.5, [](const auto& each) { return each.destination == 3; });
  EXPECT_EQ(only(delays).kind, Kind::receiver);
  delays = dense(8, 2);
  slow_down(delays, 1.5, [](const auto& each) { return each.path == 1; });
  EXPECT_EQ(only(delays).kind, Kind::path);
  delays = dense(8, 2);
  slow_down(delays, 1.5, [](const auto& each) { return each.path == 1 && each.source == 5; });
  EXPECT_EQ(only(delays).kind, Kind::sender_port);
  delays = dense(8, 2);
  slow_down(delays, 1.5, [](const auto& each) { return each.destination == 1 && each.source == 5; });
  EXPECT_EQ(only(delays).kind, Kind::link);
  EXPECT_TRUE(only(delays).sender_cleared && only(delays).receiver_cleared);
  delays = dense(8, 2);
  slow_down(delays, 1.5, [](const auto& each) { return each.destination == 1 && each.source == 5 && each.path == 0; });
  EXPECT_EQ(only(delays).kind, Kind::path_of_link);
}

TEST(DelayFit, finds_a_slow_link_within_the_row_of_a_slow_sender) {
  auto delays = dense(8, 2);
  slow_down(delays, 1.5, [](const auto& each) { return each.source == 3; });
  slow_down(delays, 2, [](const auto& each) { return each.source == 3 && each.destination == 6; });
  slow_down(delays, 1.4, [](const auto& each) { return each.destination == 1; });
  const auto parts = fit_delays(delays, 8, 1.08);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].kind, Kind::sender);
  EXPECT_EQ(parts[1].kind, Kind::receiver);
  EXPECT_EQ(parts[2].kind, Kind::link);
  EXPECT_NEAR(parts[2].factor, 2, 0.1);
}

TEST(DelayFit, says_of_a_ring_that_the_ends_are_not_cleared) {
  auto delays = ring(64);
  delays[5].relative *= 1.6;
  const auto parts = fit_delays(delays, 64, 1.08);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].kind, Kind::path_of_link);
  EXPECT_EQ(parts[0].source, 5);
  EXPECT_FALSE(parts[0].sender_cleared || parts[0].receiver_cleared);
}

TEST(DelayFit, compares_links_within_hosts_with_one_another_only) {
  auto delays = dense(8, 1);
  for (DelayFacts& delay : delays) {
    delay.local = delay.source / 4 == delay.destination / 4;
    if (delay.local) delay.relative *= 0.1;
  }
  EXPECT_TRUE(fit_delays(delays, 8, 1.08).empty());
  slow_down(delays, 2, [](const auto& each) { return !each.local && each.source == 2; });
  const auto parts = fit_delays(delays, 8, 1.08);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_FALSE(parts[0].local);
  EXPECT_EQ(parts[0].source, 2);
}

}  // namespace
}  // namespace tutti::diagnosis
