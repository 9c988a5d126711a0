#include "topology/rational.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "topology/quantity.hpp"

namespace tutti {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST(Rational, IsKeptInLowestTerms) {
  EXPECT_EQ(Rational(6, 4), Rational(3, 2));
  EXPECT_EQ(Rational(0, 7), Rational());
  EXPECT_EQ(Rational(6, 4).numerator(), 3);
  EXPECT_EQ(Rational(6, 4).denominator(), 2);
}

TEST(Rational, CalculatesExactly) {
  const Rational third(1, 3), half(1, 2);
  EXPECT_EQ(third + half, Rational(5, 6));
  EXPECT_EQ(half - third, Rational(1, 6));
  EXPECT_EQ(third * half, Rational(1, 6));
  EXPECT_EQ(third / half, Rational(2, 3));
  EXPECT_LT(third, half);
  // Differences that a double does not see.
  EXPECT_LT(Rational(kLargest - 1, kLargest), Rational(1));
  EXPECT_LT(Rational(kLargest - 2, kLargest - 1), Rational(kLargest - 1, kLargest));
}

TEST(Rational, AgreesWithDoublesOnRandomFractions) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const auto draw = [&] { return static_cast<std::int64_t>(random() % 1'000'000 + 1); };
    const Rational a(draw(), draw()), b(draw(), draw());
    EXPECT_NEAR((a + b).value(), a.value() + b.value(), 1e-9 * (a + b).value());
    EXPECT_NEAR((a * b).value(), a.value() * b.value(), 1e-9 * (a * b).value());
    EXPECT_NEAR((a / b).value(), a.value() / b.value(), 1e-9 * (a / b).value());
    EXPECT_EQ((a + b) - b, a);
    EXPECT_EQ((a / b) * b, a);
  }
}

TEST(Rational, ThrowsWhereAResultDoesNotFit) {
  EXPECT_THROW(Rational(kLargest) + 1, RationalOverflow);
  EXPECT_THROW(Rational(kLargest) * 2, RationalOverflow);
  EXPECT_THROW(Rational(1, kLargest) + Rational(1, kLargest - 1), RationalOverflow);
  EXPECT_THROW(Rational(1) - 2, RationalOverflow);
  EXPECT_THROW(Rational(1) / 0, RationalOverflow);
  EXPECT_THROW(Rational(-1), RationalOverflow);
  EXPECT_THROW(Rational(1, 0), RationalOverflow);
}

TEST(Rational, IsRoundedDownWhereAskedAndNeverUp) {
  const Wide large = (Wide{1} << 100) + 1;
  const Rational rounded = Rational::rounded_down(large, Wide{1} << 90);
  EXPECT_LE(rounded, Rational(1025));
  EXPECT_NEAR(rounded.value(), 1024.0, 1e-9);
  EXPECT_LE(Rational::rounded_down(large, large - 2), Rational(1));
  EXPECT_EQ(Rational::rounded_down(4, 6), Rational(2, 3));
  EXPECT_THROW(Rational::rounded_down(Wide{1} << 100, 1), RationalOverflow);
}

TEST(Rational, ReadsDecimalsFractionsAndExponents) {
  EXPECT_EQ(Rational::parse("12.5"), Rational(25, 2));
  EXPECT_EQ(Rational::parse(".5"), Rational(1, 2));
  EXPECT_EQ(Rational::parse("1e-6"), Rational(1, 1'000'000));
  EXPECT_EQ(Rational::parse("2.5E+3"), Rational(2500));
  EXPECT_EQ(Rational::parse("1000/23"), Rational(1000, 23));
  EXPECT_EQ(Rational::parse("0.000"), Rational());
  for (const char* text : {"", "-1", "x", "1.2.3", "1/0", "1/", "1e", "1 ", ".", "nan"})
    EXPECT_THROW(Rational::parse(text), std::invalid_argument) << text;
  EXPECT_THROW(Rational::parse("1e19"), RationalOverflow);
  EXPECT_THROW(Rational::parse("12345678901234567890"), RationalOverflow);
}

TEST(Rational, ReadsBackWhatItWrites) {
  for (const Rational value : {Rational(25, 2), Rational(1, 3), Rational(), Rational(kLargest), Rational(7, 1'000'000)})
    EXPECT_EQ(Rational::parse(value.to_string()), value) << value.to_string();
  EXPECT_EQ(Rational(25, 2).to_string(), "12.5");
  EXPECT_EQ(Rational(1, 3).to_string(), "1/3");
}

TEST(Quantities, HaveUnits) {
  EXPECT_EQ(parse_bandwidth("25 GB/s").value(), Rational(25'000'000'000));
  EXPECT_EQ(parse_bandwidth("200 Gb/s").value(), Rational(25'000'000'000));
  EXPECT_EQ(parse_bandwidth("1 GiB/s").value(), Rational(1 << 30));
  EXPECT_EQ(parse_bandwidth("1000/23 GB/s").value(), Rational(1'000'000'000'000, 23));
  EXPECT_EQ(parse_latency("1.3 us").value(), Rational(13, 10'000'000));
  EXPECT_EQ(parse_latency("700 ns").value(), Rational(7, 10'000'000));
}

TEST(Quantities, ReadBackAsTheyAreShown) {
  for (const char* text : {"25 GB/s", "12.5 GB/s", "1000/23 MB/s", "1 B/s", "3.2 TB/s"})
    EXPECT_EQ(show_bandwidth(parse_bandwidth(text).value()), text);
  for (const char* text : {"1.3 us", "700 ns", "2.5 ms", "1 s", "0 s"})
    EXPECT_EQ(show_latency(parse_latency(text).value()), text);
}

TEST(Quantities, WithoutAKnownUnitAreRefused) {
  for (const char* text : {"25", "25 Gbps", "x GB/s", "25GB/s", "-1 GB/s", "25 GB/s/s"}) {
    const auto parsed = parse_bandwidth(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message.find(text), std::string::npos) << parsed.error().message;
  }
  EXPECT_FALSE(parse_latency("1 GB/s"));
}

}  // namespace
}  // namespace tutti
