#include "reduce/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "reduce/reference_test_kit.hpp"

namespace tutti {
namespace {

constexpr Isa kIsas[] = {Isa::scalar, Isa::avx2, Isa::avx512};
const char* name_of_isa(Isa isa) { return isa == Isa::scalar ? "scalar" : isa == Isa::avx2 ? "avx2" : "avx512"; }

/// Elements at a chosen distance from a cache line, between guards that show a stray write.
class Array {
 public:
  Array(DataType type, std::size_t count, std::size_t skew)
      : size_(size_of(type)), count_(count), storage_(kGuard * 3 + count * size_, kUntouched) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    start_ = kGuard + (kGuard - address % kGuard) % kGuard + skew % kGuard;
    storage_.resize(start_ + count * size_ + kGuard, kUntouched);
  }

  void* data() { return storage_.data() + start_; }
  std::uint64_t operator[](std::size_t i) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, storage_.data() + start_ + i * size_, size_);
    return bits;
  }
  void set(std::size_t i, std::uint64_t bits) { std::memcpy(storage_.data() + start_ + i * size_, &bits, size_); }
  bool guards_hold() const {
    const auto untouched = [](unsigned char byte) { return byte == kUntouched; };
    const auto begin = storage_.begin();
    return std::all_of(begin, begin + start_, untouched) &&
           std::all_of(begin + start_ + count_ * size_, storage_.end(), untouched);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kUntouched = 0xa5;
  std::size_t size_;
  std::size_t count_;
  std::vector<unsigned char> storage_;
  std::ptrdiff_t start_ = 0;
};

/// Half the time any bits at all (NaN, infinities, subnormals), otherwise values that sums do not drown in.
std::uint64_t random_element(DataType type, std::mt19937_64& random) {
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - 8 * size_of(type));
  const std::uint64_t bits = random();
  if (!reference::is_float(type) || bits % 2 == 0) return (bits >> 1) & mask;
  const float value =
      std::ldexp(static_cast<float>(static_cast<int>(random() % 4001) - 2000), -static_cast<int>(bits / 2 % 12));
  if (type == DataType::float64) return std::bit_cast<std::uint64_t>(static_cast<double>(value) / 3);
  if (type == DataType::float32) return std::bit_cast<std::uint32_t>(value / 3);
  return reference::nearest(type, value);
}

struct Shape {
  std::size_t count;
  int sources;
  int targets;
  std::size_t skew;       // buffer i begins i * skew bytes past a cache line
  bool in_place = false;  // target t is source t
  double scale = 1.0;
  std::int64_t divisor = 1;
};

const Shape kShapes[] = {
    {.count = 0, .sources = 2, .targets = 1, .skew = 0},
    {.count = 1, .sources = 2, .targets = 1, .skew = 0},
    {.count = 1, .sources = 1, .targets = 2, .skew = 8},
    {.count = 7, .sources = 2, .targets = 2, .skew = 8},
    {.count = 64, .sources = 2, .targets = 1, .skew = 0},
    {.count = 127, .sources = 3, .targets = 1, .skew = 1},
    {.count = 131, .sources = 2, .targets = 1, .skew = 8, .in_place = true},
    {.count = 257, .sources = 1, .targets = 3, .skew = 8},
    {.count = 263, .sources = 1, .targets = 1, .skew = 8, .scale = 0.7, .divisor = 3},
    {.count = 509, .sources = 2, .targets = 2, .skew = 8, .in_place = true},
    {.count = 521, .sources = 2, .targets = 2, .skew = 64, .scale = 1.0 / 3, .divisor = 2},
    {.count = 1031, .sources = 5, .targets = 3, .skew = 24, .scale = 0.2, .divisor = 5},
    {.count = 1033, .sources = 2, .targets = 1, .skew = 3, .scale = 1.0 / 3, .divisor = 3},
    {.count = 67, .sources = 64, .targets = 64, .skew = 8, .in_place = true},
    {.count = 70, .sources = 2, .targets = 70, .skew = 64},
};

std::vector<Array> random_sources(DataType type, const Shape& shape, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<Array> sources;
  for (int s = 0; s < shape.sources; ++s) {
    Array& source = sources.emplace_back(type, shape.count, static_cast<std::size_t>(s) * shape.skew);
    for (std::size_t i = 0; i < shape.count; ++i) source.set(i, random_element(type, random));
  }
  return sources;
}

std::vector<std::uint64_t> expected_of(DataType type, Operator op, const Shape& shape,
                                       const std::vector<Array>& sources) {
  std::vector<std::uint64_t> expected(shape.count);
  std::vector<std::uint64_t> operands(sources.size());
  for (std::size_t i = 0; i < shape.count; ++i) {
    for (std::size_t s = 0; s < sources.size(); ++s) operands[s] = sources[s][i];
    expected[i] = reference::reduce(type, op, operands, shape.scale, shape.divisor);
  }
  return expected;
}

/// Runs the kernel on a copy of `originals` and compares every target with `expected`.
void expect_bits(DataType type, Operator op, Isa isa, bool stream, const Shape& shape,
                 const std::vector<Array>& originals, const std::vector<std::uint64_t>& expected) {
  std::vector<Array> sources;
  for (int s = 0; s < shape.sources; ++s) {
    Array& source = sources.emplace_back(type, shape.count, static_cast<std::size_t>(s) * shape.skew);
    for (std::size_t i = 0; i < shape.count; ++i) source.set(i, originals[static_cast<std::size_t>(s)][i]);
  }
  std::vector<Array> apart;
  for (int t = 0; t < shape.targets; ++t)
    apart.emplace_back(type, shape.count, static_cast<std::size_t>(t) * shape.skew);
  std::vector<Array*> results;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (auto& source : sources) from.push_back(source.data());
  for (std::size_t t = 0; t < apart.size(); ++t) {
    results.push_back(shape.in_place && t < sources.size() ? &sources[t] : &apart[t]);
    to.push_back(results.back()->data());
  }

  const ReduceCall call{.targets = to.data(),
                        .target_count = shape.targets,
                        .sources = from.data(),
                        .source_count = shape.sources,
                        .elements = shape.count,
                        .scale = shape.scale,
                        .divisor = shape.divisor,
                        .stream = stream};
  find_kernel(type, op, isa)(call);

  for (std::size_t t = 0; t < results.size(); ++t) {
    ASSERT_TRUE(results[t]->guards_hold()) << "target " << t;
    for (std::size_t i = 0; i < shape.count; ++i) {
      ASSERT_EQ((*results[t])[i], expected[i]) << "target " << t << " element " << i;
    }
  }
}

struct Arithmetic {
  DataType type;
  Operator op;
};

std::vector<Arithmetic> all_arithmetic() {
  std::vector<Arithmetic> all;
  for (int t = 0; t < kDataTypes; ++t) {
    for (int o = 0; o < kOperators; ++o) {
      const Arithmetic one{static_cast<DataType>(t), static_cast<Operator>(o)};
      const bool bitwise = one.op >= Operator::bit_and && one.op <= Operator::bit_xor;
      if (one.op != Operator::user && !(bitwise && reference::is_float(one.type))) all.push_back(one);
    }
  }
  return all;
}

class Kernels : public testing::TestWithParam<Arithmetic> {};

TEST_P(Kernels, GiveTheReferencesBitsOnEveryIsaForEveryShape) {
  const auto [type, op] = GetParam();
  for (std::size_t n = 0; n < std::size(kShapes); ++n) {
    const auto seed = static_cast<unsigned>(1000 * n + 10 * static_cast<unsigned>(type) + static_cast<unsigned>(op));
    const std::vector<Array> sources = random_sources(type, kShapes[n], seed);
    const std::vector<std::uint64_t> expected = expected_of(type, op, kShapes[n], sources);
    for (Isa isa : kIsas) {
      for (bool stream : {false, true}) {
        SCOPED_TRACE(testing::Message() << "shape " << n << ", seed " << seed << ", " << name_of_isa(isa)
                                        << (stream ? ", streaming" : ""));
        expect_bits(type, op, isa, stream, kShapes[n], sources, expected);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Kernels, testing::ValuesIn(all_arithmetic()), [](const auto& instance) {
  return std::string(name_of(instance.param.type)) + "_" + std::string(name_of(instance.param.op));
});

class Types : public testing::TestWithParam<DataType> {};

TEST_P(Types, SumLargeArraysThatNoBlockDivides) {
  const DataType type = GetParam();
  for (std::size_t count : {20'011, 65'536}) {
    const Shape shape{.count = count, .sources = 2, .targets = 1, .skew = 8};
    SCOPED_TRACE(testing::Message() << count << " elements, seed 5");
    const std::vector<Array> sources = random_sources(type, shape, 5);
    const std::vector<std::uint64_t> expected = expected_of(type, Operator::sum, shape, sources);
    for (Isa isa : kIsas) expect_bits(type, Operator::sum, isa, isa != Isa::avx2, shape, sources, expected);
  }
}

std::string name_of_type(const testing::TestParamInfo<DataType>& instance) {
  return std::string(name_of(instance.param));
}

std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int t = 0; t < kDataTypes; ++t) types.push_back(static_cast<DataType>(t));
  return types;
}
INSTANTIATE_TEST_SUITE_P(All, Types, testing::ValuesIn(all_types()), name_of_type);

class ByteTypes : public testing::TestWithParam<DataType> {};

TEST_P(ByteTypes, GiveTheReferencesBitsForEveryPairOfValues) {
  const DataType type = GetParam();
  const Shape shape{.count = 65'536, .sources = 2, .targets = 1, .skew = 0};
  std::vector<Array> sources;
  for (int s = 0; s < 2; ++s) {
    Array& source = sources.emplace_back(type, shape.count, 0);
    for (std::size_t i = 0; i < shape.count; ++i) source.set(i, s == 0 ? i / 256 : i % 256);
  }
  for (Operator op : {Operator::sum, Operator::product, Operator::min, Operator::max}) {
    SCOPED_TRACE(name_of(op));
    const std::vector<std::uint64_t> expected = expected_of(type, op, shape, sources);
    for (Isa isa : kIsas) expect_bits(type, op, isa, false, shape, sources, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ByteTypes,
                         testing::Values(DataType::int8, DataType::uint8, DataType::float8_e4m3, DataType::float8_e5m2),
                         name_of_type);

class WordTypes : public testing::TestWithParam<DataType> {};

TEST_P(WordTypes, RoundEveryCodeTheSameOnEveryIsaWhenScaled) {
  const DataType type = GetParam();
  for (double factor : {1.0 / 3, 1e-4, 3e4}) {
    const Shape shape{.count = 65'536, .sources = 1, .targets = 1, .skew = 0, .scale = factor};
    SCOPED_TRACE(testing::Message() << "times " << factor);
    std::vector<Array> sources;
    sources.emplace_back(type, shape.count, 0);
    for (std::size_t i = 0; i < shape.count; ++i) sources[0].set(i, i);
    const std::vector<std::uint64_t> expected = expected_of(type, Operator::sum, shape, sources);
    for (Isa isa : kIsas) expect_bits(type, Operator::sum, isa, false, shape, sources, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, WordTypes, testing::Values(DataType::float16, DataType::bfloat16), name_of_type);

template <typename T>
std::vector<T> reduced(DataType type, Operator op, std::vector<std::vector<T>> operands, std::int64_t divisor = 1) {
  std::vector<T> result(operands[0].size());
  void* target = result.data();
  std::vector<const void*> sources;
  for (const auto& operand : operands) sources.push_back(operand.data());
  ReduceCall call;
  call.targets = &target;
  call.sources = sources.data();
  call.source_count = static_cast<int>(sources.size());
  call.elements = result.size();
  call.divisor = divisor;
  find_kernel(type, op)(call);
  return result;
}

TEST(Integers, AverageRoundsTowardsZero) {
  EXPECT_EQ(reduced<std::int32_t>(DataType::int32, Operator::average, {{-5, 5, -1}, {-2, 2, 0}}, 2),
            (std::vector<std::int32_t>{-3, 3, 0}));
  EXPECT_EQ(reduced<std::uint64_t>(DataType::uint64, Operator::average, {{~std::uint64_t{0}}, {0}}, 2),
            (std::vector<std::uint64_t>{~std::uint64_t{0} / 2}));
}

TEST(Integers, WrapInTheirOwnType) {
  EXPECT_EQ(reduced<std::int8_t>(DataType::int8, Operator::sum, {{127}, {1}}), (std::vector<std::int8_t>{-128}));
  EXPECT_EQ(reduced<std::int8_t>(DataType::int8, Operator::average, {{127}, {127}}, 2), (std::vector<std::int8_t>{-1}));
  EXPECT_EQ(reduced<std::int64_t>(DataType::int64, Operator::sum, {{std::numeric_limits<std::int64_t>::max()}, {1}}),
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min()}));
}

TEST(Floats, MinAndMaxOrderTheZerosAndKeepNan) {
  const std::vector<float> a{-0.0f, 0.0f, NAN, 1.0f};
  const std::vector<float> b{0.0f, -0.0f, 1.0f, NAN};
  const auto low = reduced<float>(DataType::float32, Operator::min, {a, b});
  const auto high = reduced<float>(DataType::float32, Operator::max, {a, b});
  EXPECT_TRUE(std::signbit(low[0]) && std::signbit(low[1]));
  EXPECT_FALSE(std::signbit(high[0]) || std::signbit(high[1]));
  for (int i : {2, 3}) EXPECT_TRUE(std::isnan(low[i]) && std::isnan(high[i]));
}

TEST(Floats, SixteenBitSumsAreRoundedOnce) {
  // 256 + 1 + 1 in bfloat16: rounded at each step the ones are lost, in float32 they make 258.
  const std::uint16_t large = 0x4380, one = 0x3f80, sum = 0x4381;
  EXPECT_EQ(reduced<std::uint16_t>(DataType::bfloat16, Operator::sum, {{large}, {one}, {one}}),
            (std::vector<std::uint16_t>{sum}));
}

TEST(FindKernel, IsNullWhereTheOperatorHasNoMeaning) {
  for (Isa isa : kIsas) {
    EXPECT_EQ(find_kernel(DataType::float32, Operator::bit_xor, isa), nullptr);
    EXPECT_EQ(find_kernel(DataType::int32, Operator::user, isa), nullptr);
    EXPECT_EQ(find_kernel(DataType::int32, Operator::average, isa), find_kernel(DataType::int32, Operator::sum, isa));
  }
}

TEST(Supports, NamesTheTypeAndTheOperatorItRejects) {
  EXPECT_TRUE(supports(DataType::int64, Operator::bit_or).has_value());
  EXPECT_TRUE(supports(DataType::float8_e5m2, Reduction::premultiplied(0.5)).has_value());

  const Status status = supports(DataType::bfloat16, Operator::bit_xor);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(status.error().message.find("bfloat16"), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find(name_of(Operator::bit_xor)), std::string::npos) << status.error().message;
}

TEST(Supports, RejectsAUserOperatorWithoutAFunctionAndValuesThatDoNotExist) {
  EXPECT_FALSE(supports(DataType::int32, Operator::user).has_value());
  EXPECT_TRUE(supports(DataType::int32, Reduction::user([](auto...) {})).has_value());
  EXPECT_FALSE(supports(static_cast<DataType>(12), Operator::sum).has_value());
  EXPECT_FALSE(supports(DataType::int32, static_cast<Operator>(10)).has_value());
}

TEST(Copy, MovesExactlyTheBytesAskedForStreamingOrNot) {
  for (bool stream : {false, true}) {
    for (std::size_t bytes : {0, 1, 63, 64, 65, 1000, 70'001}) {
      for (std::size_t skew : {0, 1, 60}) {
        SCOPED_TRACE(testing::Message() << bytes << " bytes, skew " << skew << (stream ? ", streaming" : ""));
        Array source(DataType::uint8, bytes, 2 * skew);
        Array target(DataType::uint8, bytes, skew);
        for (std::size_t i = 0; i < bytes; ++i) source.set(i, i * 7 % 251);
        copy(target.data(), source.data(), bytes, stream);
        ASSERT_EQ(std::memcmp(target.data(), source.data(), bytes), 0);
        ASSERT_TRUE(target.guards_hold());
      }
    }
  }
}

TEST(Scale, TruncatesIntegersTowardsZeroAndSaturatesThem) {
  std::vector<std::int32_t> values{7, -7, 2'000'000'000, -2'000'000'000};
  scale(values.data(), values.data(), values.size(), DataType::int32, 1.5);
  EXPECT_EQ(values, (std::vector<std::int32_t>{10, -10, 2147483647, -2147483648}));

  std::vector<std::uint64_t> words{10, ~std::uint64_t{0}};
  scale(words.data(), words.data(), words.size(), DataType::uint64, -1.0);
  EXPECT_EQ(words, (std::vector<std::uint64_t>{0, 0}));
  words = {3, ~std::uint64_t{0}};
  scale(words.data(), words.data(), words.size(), DataType::uint64, 2.0);
  EXPECT_EQ(words, (std::vector<std::uint64_t>{6, ~std::uint64_t{0}}));
}

TEST(Scale, ByOneChangesNothing) {
  const std::vector<std::int64_t> odd{(std::int64_t{1} << 53) + 1};  // not a double
  std::vector<std::int64_t> result(1);
  scale(result.data(), odd.data(), 1, DataType::int64, 1.0);
  EXPECT_EQ(result, odd);
}

TEST(Scale, RoundsFloatsToTheirType) {
  const std::vector<float> values{3.0f, -1.0f};
  std::vector<float> result(2);
  scale(result.data(), values.data(), 2, DataType::float32, 0.1);
  EXPECT_EQ(result, (std::vector<float>{3.0f * 0.1f, -0.1f}));
}

class IsaDeathTest : public testing::Test {
 protected:
  // The environment is read once per process: each test runs in a fresh one.
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  /// Leaves with 0 if the kernels found under TUTTI_ISA=`wish` are those of `expected`.
  static void exit_with_choice(const char* wish, Isa expected) {
    setenv("TUTTI_ISA", wish, 1);
    const bool chosen =
        find_kernel(DataType::int8, Operator::sum) == find_kernel(DataType::int8, Operator::sum, expected);
    std::exit(chosen ? 0 : 1);
  }
};

TEST_F(IsaDeathTest, IsLoweredByTheEnvironment) {
  EXPECT_EXIT(exit_with_choice("scalar", Isa::scalar), testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(exit_with_choice("avx2", Isa::avx2), testing::ExitedWithCode(0), "^$");
}

TEST_F(IsaDeathTest, IsTheBestAndSaysSoWhereTheNameIsUnknown) {
  EXPECT_EXIT(exit_with_choice("neon", Isa::avx512), testing::ExitedWithCode(0), "TUTTI_ISA is \"neon\"");
}

}  // namespace
}  // namespace tutti
