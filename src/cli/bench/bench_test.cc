#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <thread>

#include "cli/bench/bench_case.hpp"
#include "cli/bench/bench_measure.hpp"
#include "cli/bench/bench_options.hpp"
#include "cli/bench/bench_report.hpp"
#include "cli/bench/bench_run.hpp"
#include "cli/bench/reference.hpp"

namespace tutti::cli {
namespace {

TEST(BenchSizes, AreMultipliedOrAddedUpToTheLargest) {
  BenchOptions options;
  options.min_bytes = 8;
  options.max_bytes = 100;
  options.step_factor = 2;
  EXPECT_EQ(options.sizes(), (std::vector<std::size_t>{8, 16, 32, 64}));
  options.step_factor = 1;
  options.step_bytes = 40;
  EXPECT_EQ(options.sizes(), (std::vector<std::size_t>{8, 48, 88}));
  options.min_bytes = 0;
  options.step_factor = 2;
  EXPECT_EQ(options.sizes(), (std::vector<std::size_t>{0})) << "zero times two goes nowhere";
}

TEST(BenchNames, AreThoseOfNcclTests) {
  EXPECT_EQ(types_named("half").at(0).type, DataType::float16);
  EXPECT_EQ(types_named("f8e5m2").at(0).type, DataType::float8_e5m2);
  EXPECT_EQ(types_named("all").size(), static_cast<std::size_t>(kDataTypes));
  EXPECT_TRUE(types_named("float99").empty());
  EXPECT_EQ(operators_named("mulsum").at(0).op, Operator::premultiplied_sum);
  EXPECT_EQ(operators_named("all").size(), 6U);
}

TEST(BenchTable, NumbersFitTheirColumns) {
  EXPECT_EQ(fit_number(1.2345, 7), "   1.23");
  EXPECT_EQ(fit_number(12345.678, 7), "12345.7");
  EXPECT_EQ(fit_number(1234567.8, 7), "1234568");
  EXPECT_EQ(fit_number(123456789.0, 7), "1.2e+08");
}

TEST(BenchTable, RowsAreAsNcclTestsPrintsThem) {
  EXPECT_EQ(format_head({33554432, 8388608, "float", "sum", -1}),
            "    33554432       8388608     float     sum      -1");
  EXPECT_EQ(format_half(Measurement{123.456, 1.5, 3.0, 0}, true), "   123.46    1.50    3.00       0");
  EXPECT_EQ(format_half(Measurement{123.456, 1.5, 3.0, 0}, false), "   123.46    1.50    3.00     N/A");
  EXPECT_EQ(format_half(std::nullopt, true), "      N/A     N/A     N/A     N/A");
}

TEST(BenchFactors, AreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(find_bench_case("all_reduce")->bus_factor(4), 1.5);
  for (const char* name : {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})
    EXPECT_DOUBLE_EQ(find_bench_case(name)->bus_factor(4), 0.75) << name;
  for (const char* name : {"broadcast", "reduce", "sendrecv"})
    EXPECT_DOUBLE_EQ(find_bench_case(name)->bus_factor(4), 1.0) << name;
}

TEST(Encoding, GivesTheBitsOfEachFloatFormat) {
  const auto bits = [](double value, DataType type) {
    std::byte bytes[2] = {};
    encode(value, bytes, type);
    return std::to_integer<int>(bytes[0]) | std::to_integer<int>(bytes[1]) << 8;
  };
  EXPECT_EQ(bits(1.0, DataType::float16), 0x3c00);
  EXPECT_EQ(bits(-2.0, DataType::float16), 0xc000);
  EXPECT_EQ(bits(1.0, DataType::bfloat16), 0x3f80);
  EXPECT_EQ(bits(7.0, DataType::bfloat16), 0x40e0);
  EXPECT_EQ(bits(1.0, DataType::float8_e4m3), 0x38);
  EXPECT_EQ(bits(1.0, DataType::float8_e5m2), 0x3c);
  EXPECT_EQ(bits(0.0, DataType::float8_e5m2), 0x00);
  EXPECT_EQ(bits(1.0 + 3.0 / 2048, DataType::float16), 0x3c02) << "a tie goes to even";
}

TEST(Encoding, ComesBackFromEveryType) {
  for (const NamedType& type : bench_types())
    for (const double value : {0.0, 1.0, 2.0, 5.0, 7.0}) {
      std::byte bytes[8] = {};
      encode(value, bytes, type.type);
      EXPECT_EQ(decode(bytes, type.type), value) << type.name;
    }
}

// A reference that rounds would call right results wrong.
TEST(Reference, SumsAreExactInEveryTypeForManyRanks) {
  for (const NamedType& type : bench_types())
    for (const int ranks : {1, 2, 7, 64}) {
      const Tile sum = Tile::reduced(ranks, type.type, Operator::sum, 1);
      std::vector<std::byte> want(Tile::kPeriod * size_of(type.type));
      sum.fill(want.data(), Tile::kPeriod, 0);
      std::vector<double> total(Tile::kPeriod);
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<std::byte> input(want.size());
        Tile::input(rank, ranks, type.type, Operator::sum, 1).fill(input.data(), Tile::kPeriod, 0);
        for (std::size_t i = 0; i < Tile::kPeriod; ++i) {
          total[i] += decode(&input[i * size_of(type.type)], type.type);
          // Every partial sum must survive being stored.
          std::byte stored[8] = {};
          encode(total[i], stored, type.type);
          ASSERT_EQ(decode(stored, type.type), total[i]) << type.name << " " << ranks << " ranks, element " << i;
        }
      }
      for (std::size_t i = 0; i < Tile::kPeriod; ++i)
        ASSERT_EQ(decode(&want[i * size_of(type.type)], type.type), total[i]) << type.name;
    }
}

TEST(Reference, CountsEveryElementThatIsOff) {
  const Tile tile = Tile::input(1, 4, DataType::int32, Operator::sum, 1);
  std::vector<std::byte> data(20000 * 4);
  tile.fill(data.data(), 20000, 5000);
  EXPECT_EQ(tile.count_wrong(data.data(), 20000, 5000), 0U);
  EXPECT_GT(tile.count_wrong(data.data(), 20000, 5001), 10000U) << "shifted by one";
  data[0] ^= std::byte{1};
  data[19999 * 4] ^= std::byte{1};
  EXPECT_EQ(tile.count_wrong(data.data(), 20000, 5000), 2U);
}

TEST(Reference, AveragesOfFloatsMayBeOffByOneUnit) {
  const Tile tile = Tile::reduced(3, DataType::float32, Operator::average, 1);
  std::vector<float> data(100);
  tile.fill(reinterpret_cast<std::byte*>(data.data()), 100, 0);
  std::vector<float> nudged = data;
  for (float& value : nudged) value = std::nextafter(value, 0.0F);
  EXPECT_EQ(tile.count_wrong(reinterpret_cast<std::byte*>(nudged.data()), 100, 0), 0U);
  for (float& value : nudged) value += 0.01F;
  EXPECT_EQ(tile.count_wrong(reinterpret_cast<std::byte*>(nudged.data()), 100, 0), 100U);
}

TEST(BenchRunOnThreads, MeasuresAndVerifiesEveryCollective) {
  BenchOptions options;
  options.collective = "all";
  options.threads = 2;
  options.min_bytes = 4096;
  options.max_bytes = 4096;
  options.iterations = 2;
  options.root = -1;
  auto communicators = Communicator::create_threads(2);
  ASSERT_TRUE(communicators) << communicators.error().to_string();
  int statuses[2] = {-1, -1};
  testing::internal::CaptureStdout();
  std::thread other([&] { statuses[1] = run_bench((*communicators)[1], options, {}); });
  statuses[0] = run_bench((*communicators)[0], options, {});
  other.join();
  const std::string table = testing::internal::GetCapturedStdout();
  EXPECT_EQ(statuses[0], 0) << table;
  EXPECT_EQ(statuses[1], 0) << table;
  EXPECT_NE(table.find("# Out of bounds values : 0 OK"), std::string::npos) << table;
}

TEST(BenchRankOnThreads, ChoosesTheNumberOfCallsByTheTimeTheyTakeUnlessItIsGiven) {
  for (const int given : {0, 7}) {
    BenchOptions options;
    options.iterations = given;
    auto communicators = Communicator::create_threads(2).value();
    Measurement measured[2];
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        const auto all_reduce = [](const BenchCase& each) { return std::string_view(each.name) == "all_reduce"; };
        BenchPoint point;
        point.bench_case = &*std::find_if(bench_cases().begin(), bench_cases().end(), all_reduce);
        point.count = 16;
        BenchRank bench(communicators[static_cast<std::size_t>(rank)], options);
        measured[rank] = bench.measure(point).value();
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(measured[0].iterations, measured[1].iterations);
    EXPECT_EQ(measured[0].wrong, 0);
    if (given > 0)
      EXPECT_EQ(measured[0].iterations, given);
    else
      EXPECT_GT(measured[0].iterations, 20) << measured[0].microseconds << " us a call";
  }
}

}  // namespace
}  // namespace tutti::cli
