#include "reduce/numeric.hpp"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "reduce/reference_test_kit.hpp"

namespace tutti {
namespace {

template <class FormatT, DataType kTypeV>
struct Case {
  using Format = FormatT;
  static constexpr DataType kType = kTypeV;
};

template <class C>
class SmallFloat : public testing::Test {
 protected:
  using Format = typename C::Format;
  static constexpr DataType kType = C::kType;
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();  // the only one encode takes
  static constexpr std::uint32_t kCodes = 1u << (8 * sizeof(typename Format::Code));

  static float decoded(std::uint32_t code) { return decode<Format, 1>(code); }
  static std::uint32_t encoded(float value) { return encode<Format, 1>(std::isnan(value) ? kNan : value); }
  static void expect_nearest(float value) {
    ASSERT_EQ(encoded(value), reference::nearest(kType, value)) << "of " << value;
    ASSERT_EQ(encoded(-value), reference::nearest(kType, -value)) << "of " << -value;
  }
};

using Cases = testing::Types<Case<Float16, DataType::float16>, Case<Bfloat16, DataType::bfloat16>,
                             Case<E4m3, DataType::float8_e4m3>, Case<E5m2, DataType::float8_e5m2>>;
TYPED_TEST_SUITE(SmallFloat, Cases);

TYPED_TEST(SmallFloat, EveryCodeDecodesToItsValueAndBack) {
  for (std::uint32_t code = 0; code < TestFixture::kCodes; ++code) {
    const double expected = reference::value_of(TestFixture::kType, code);
    const float value = TestFixture::decoded(code);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_EQ(TestFixture::encoded(value), reference::nearest(TestFixture::kType, NAN)) << code;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << code;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << code;
      ASSERT_EQ(TestFixture::encoded(value), code);
    }
  }
}

TYPED_TEST(SmallFloat, RoundsToNearestAndTiesToEvenBetweenAllNeighbours) {
  for (std::uint32_t code = 0; code + 1 < TestFixture::kCodes / 2; ++code) {
    const float low = TestFixture::decoded(code);
    const float high = TestFixture::decoded(code + 1);
    if (!std::isfinite(high)) break;
    const float middle = low + (high - low) / 2;
    this->expect_nearest(middle);
    this->expect_nearest(std::nextafter(middle, low));
    this->expect_nearest(std::nextafter(middle, high));
  }
}

TYPED_TEST(SmallFloat, RoundsAnyFloatToNearest) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 100'000; ++i) this->expect_nearest(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
}

TYPED_TEST(SmallFloat, TreatsValuesAboutItsLargestAsDefined) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (float largest : {65504.0f, 65520.0f, 65536.0f, 448.0f, 464.0f, 480.0f, 57344.0f, 61440.0f, 3.39e38f}) {
    this->expect_nearest(largest);
    this->expect_nearest(std::nextafter(largest, 0.0f));
    this->expect_nearest(std::nextafter(largest, kInfinity));
  }
  this->expect_nearest(std::numeric_limits<float>::max());
  this->expect_nearest(kInfinity);
}

TEST(Fp8, SaturatesInsteadOfOverflowing) {
  EXPECT_EQ((decode<E4m3, 1>(encode<E4m3, 1>(1e6f))), 448.0f);
  EXPECT_EQ((decode<E4m3, 1>(encode<E4m3, 1>(-INFINITY))), -448.0f);
  EXPECT_EQ((decode<E5m2, 1>(encode<E5m2, 1>(1e6f))), 57344.0f);
  EXPECT_EQ((decode<E5m2, 1>(encode<E5m2, 1>(-1e6f))), -57344.0f);
}

TEST(Fp8, KeepsNanAndE5m2KeepsInfinity) {
  EXPECT_TRUE(std::isnan(decode<E4m3, 1>(encode<E4m3, 1>(NAN))));
  EXPECT_TRUE(std::isnan(decode<E5m2, 1>(encode<E5m2, 1>(NAN))));
  EXPECT_EQ((decode<E5m2, 1>(encode<E5m2, 1>(INFINITY))), INFINITY);
}

__attribute__((target("f16c"))) float hardware_decode(std::uint16_t code) { return _cvtsh_ss(code); }
__attribute__((target("f16c"))) std::uint16_t hardware_encode(float value) {
  return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}

TEST(Float16, AgreesWithTheCpusOwnConversion) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "needs a CPU with F16C";
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const float expected = hardware_decode(static_cast<std::uint16_t>(code));
    const float value = decode<Float16, 1>(code);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << code;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected)) << code;
    const float third = value / 3;
    ASSERT_EQ((encode<Float16, 1>(third)), hardware_encode(third)) << third;
  }
}

}  // namespace
}  // namespace tutti
