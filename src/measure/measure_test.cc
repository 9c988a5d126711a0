#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "measure/fit.hpp"
#include "measure/measure_test_kit.hpp"
#include "measure/plan.hpp"

namespace tutti {
namespace {

std::vector<SizeTime> line(double latency, double rate, const std::vector<std::uint64_t>& sizes) {
  std::vector<SizeTime> times;
  for (const std::uint64_t bytes : sizes) times.push_back({bytes, latency + static_cast<double>(bytes) / rate});
  return times;
}

TEST(Fit, FindsTheLineItWasGiven) {
  const LineFit fit = fit_line(line(20 * kMicro, 100 * kMB, {1, 4096, 65536, 1 << 20}));
  EXPECT_NEAR(fit.latency, 20 * kMicro, 0.1 * kMicro);
  EXPECT_NEAR(fit.rate, 100 * kMB, 0.01 * kMB);
  EXPECT_LT(fit.error, 1e-3);
  EXPECT_LT(fit.rate_error, 1e-6);
}

TEST(Fit, KeepsLatencyAndRateApartWhereTheFirstBytesAreFree) {
  // A token bucket of 2 KB at 0.6 MB/s: small messages pass at once, large ones are 3 ms early.
  auto times = line(50 * kMicro, 0.6 * kMB, {8, 16384, 65536, 262144});
  for (std::size_t i = 1; i < times.size(); ++i) times[i].seconds -= 2048 / (0.6 * kMB);
  const LineFit fit = fit_line(times);
  EXPECT_NEAR(fit.latency, 63 * kMicro, 1 * kMicro);
  EXPECT_NEAR(fit.rate, 0.6 * kMB, 0.001 * kMB);
  EXPECT_GT(fit.error, 0.01);  // the line is not the whole truth, and says so
}

TEST(Fit, SaysHowSureItIsOfTheRate) {
  auto times = line(20 * kMicro, 100 * kMB, {8, 65536, 262144, 1 << 20, 4 << 20});
  times[2].seconds *= 1.2;
  EXPECT_GT(fit_line(times).rate_error, 0.01);
}

TEST(Fit, TakesTheLargestMessageWhereNoiseTurnsTheLineRound) {
  const std::vector<SizeTime> times = {{8, 5 * kMicro}, {16, 4 * kMicro}};
  EXPECT_NEAR(fit_line(times).rate, 16 / (4 * kMicro), 1);
  const std::vector<SizeTime> one = {{1000, 1e-3}};
  EXPECT_NEAR(fit_line(one).rate, 1e6, 1);
}

TEST(Median, IsTheLesserOfTwo) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({7, 5}), 5);
  EXPECT_EQ(median({}), 0);
}

TEST(Rounds, HaveEveryPairOnceAndNoRankTwiceInARound) {
  for (const int ranks : {2, 3, 4, 7, 8}) {
    const auto pairs = pairs_in_rounds(ranks);
    EXPECT_EQ(pairs.size(), static_cast<std::size_t>(ranks * (ranks - 1) / 2));
    EXPECT_EQ(std::set(pairs.begin(), pairs.end()).size(), pairs.size());
    std::set<int> busy;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (i % static_cast<std::size_t>(ranks / 2) == 0) busy.clear();
      EXPECT_LT(pairs[i].first, pairs[i].second);
      EXPECT_TRUE(busy.insert(pairs[i].first).second && busy.insert(pairs[i].second).second) << ranks << " at " << i;
    }
  }
}

TEST(Islands, AreSeenThroughASlowPairInsideAndAFastOneBetween) {
  const PaperMachine machine{{0, 1, 2, 3, 4, 5, 6, 7}, [](int from, int to) {
                               if (std::minmax(from, to) == std::minmax(0, 2)) return 1 * kMB;  // inside
                               if (std::minmax(from, to) == std::minmax(4, 5)) return 6 * kMB;  // between
                               return from % 2 == to % 2 ? 12 * kMB : 0.6 * kMB;
                             }};
  const auto islands = islands_of(PairTable(machine.measure()));
  EXPECT_EQ(islands, (std::vector<std::vector<int>>{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(Islands, AreNotMadeUpWhereAllRanksAreAlike) {
  const PaperMachine machine{{0, 1, 2, 3, 4}, [](int, int) { return 10 * kMB; }};
  EXPECT_EQ(islands_of(PairTable(machine.measure())).size(), 1u);
}

TEST(Levels, MakeEqualWhatDiffersByNoise) {
  EXPECT_EQ(levelled({10, 5, 10.4, 5.1, 9.9}), (std::vector<double>{10, 5.1, 10, 5.1, 10}));
  EXPECT_EQ(levelled({1, 2, 4}), (std::vector<double>{1, 2, 4}));
}

TEST(PairTable, TakesPairsThatWereNotMeasuredToBeAsTheOthersOfTheirKind) {
  const PaperMachine machine{{0, 0, 1, 1}, [](int from, int to) { return from / 2 == to / 2 ? 1000 * kMB : 10 * kMB; }};
  Measurements measurements = machine.measure();
  std::erase_if(measurements.pairs, [](const PairTimes& pair) { return pair.from == 0 && pair.to != 1; });
  const PairTable pairs(measurements);
  EXPECT_FALSE(pairs.measured(0, 2));
  EXPECT_NEAR(pairs.rate(0, 2), 10 * kMB, 1 * kMB);
  EXPECT_NEAR(pairs.rate(0, 1), 1000 * kMB, 50 * kMB);
}

TEST(Plan, MeasuresPortsBeforeItVariesTheNumberOfPeers) {
  const PaperMachine machine{{0, 1, 2, 3, 4, 5}, [](int, int) { return 10 * kMB; }};
  const PairTable pairs(machine.measure());
  const auto plan = plan_together(pairs, {{0, 1, 2, 3, 4, 5}});
  ASSERT_EQ(plan.size(), 6u * 2 * 3);  // with 5, 2 and 4 peers
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(plan[i].flows.size(), 5u);
  EXPECT_EQ(plan[12].flows.size(), 2u);
  EXPECT_NEAR(plan[0].alone, 50 * kMB, 2 * kMB);
}

TEST(Plan, LooksAtNicsOfHostsAndTrunksOfIslands) {
  const PaperMachine hosts{{0, 0, 1, 1}, [](int from, int to) { return from / 2 == to / 2 ? 1000 * kMB : 10 * kMB; }};
  const PairTable pairs(hosts.measure());
  int nics = 0, trunks = 0;
  for (const Together& together : plan_together(pairs, islands_of(pairs))) {
    nics += together.shared == SharedResource::host_egress || together.shared == SharedResource::host_ingress;
    trunks += together.shared == SharedResource::trunk;
  }
  EXPECT_EQ(nics, 4);
  EXPECT_EQ(trunks, 0);  // the islands are the hosts
  const PaperMachine islands{{0, 1, 2, 3}, [](int from, int to) { return from / 2 == to / 2 ? 100 * kMB : 10 * kMB; }};
  const PairTable apart(islands.measure());
  for (const Together& together : plan_together(apart, islands_of(apart)))
    trunks += together.shared == SharedResource::trunk;
  EXPECT_EQ(trunks, 2);
}

TEST(Measurements, AreWrittenWithTheirUnits) {
  const PaperMachine machine{{0, 1, 2}, [](int, int) { return 10 * kMB; }};
  const auto written = nlohmann::json::parse(measurements_to_json(machine.measure()));
  EXPECT_EQ(written["format"], "tutti measurements 1");
  EXPECT_EQ(written["pairs"].size(), 6u);
  EXPECT_EQ(written["pairs"][0]["one_way"][0]["bytes"], 8);
  EXPECT_NEAR(written["pairs"][0]["one_way"][0]["us"].get<double>(), 50.8, 2);
  EXPECT_EQ(written["together"][0]["shared"], "egress");
}

}  // namespace
}  // namespace tutti
