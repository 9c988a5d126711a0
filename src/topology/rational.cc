#include "topology/rational.hpp"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <numeric>

namespace tutti {
namespace {

constexpr Wide kLargest = std::numeric_limits<std::int64_t>::max();
constexpr int kMostDigits = 18;  // of a decimal, so that its parts fit

Wide greatest_common_divisor(Wide a, Wide b) {
  while (b != 0) {
    a %= b;
    std::swap(a, b);
  }
  return a;
}

int bits_of(Wide number) {
  const auto high = static_cast<std::uint64_t>(number >> 64);
  return high != 0 ? 64 + std::bit_width(high) : std::bit_width(static_cast<std::uint64_t>(number));
}

Wide times(Wide a, Wide b) {
  if (a != 0 && b > ~Wide{0} / a) throw RationalOverflow("a product does not fit in 128 bits");
  return a * b;
}

std::int64_t power_of_ten(int exponent) {
  std::int64_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument(fmt::format("'{}' is not a number; expected e.g. 12.5, 1e-6, 5/3", text));
}

/// Takes the digits at the front of `text`, at most kMostDigits of them together with `digits`.
std::int64_t take_digits(std::string_view& text, std::int64_t value, int& digits, std::string_view whole) {
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    if (value != 0 && ++digits > kMostDigits) throw RationalOverflow(fmt::format("'{}' has too many digits", whole));
    value = value * 10 + (text.front() - '0');
    text.remove_prefix(1);
  }
  return value;
}

int take_exponent(std::string_view& text, std::string_view whole) {
  if (text.empty() || (text.front() != 'e' && text.front() != 'E')) return 0;
  text.remove_prefix(1);
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  if (text.empty()) refuse(whole);
  int digits = 0;
  const std::int64_t exponent = take_digits(text, 0, digits, whole);
  if (exponent > kMostDigits) throw RationalOverflow(fmt::format("'{}' has too large an exponent", whole));
  return static_cast<int>(negative ? -exponent : exponent);
}

}  // namespace

Rational::Rational(std::int64_t whole) : Rational(whole, 1) {}

Rational::Rational(std::int64_t numerator, std::int64_t denominator) {
  if (numerator < 0 || denominator <= 0)
    throw RationalOverflow(fmt::format("{}/{} is not a fraction of zero or more", numerator, denominator));
  const std::int64_t common = std::gcd(numerator, denominator);
  numerator_ = numerator / common;
  denominator_ = denominator / common;
}

Rational Rational::of(Wide numerator, Wide denominator) {
  if (denominator == 0) throw RationalOverflow("a division by zero");
  const Wide common = greatest_common_divisor(numerator, denominator);
  numerator /= common;
  denominator /= common;
  if (numerator > kLargest || denominator > kLargest) throw RationalOverflow("a fraction does not fit in 64-bit parts");
  Rational result;
  result.numerator_ = static_cast<std::int64_t>(numerator);
  result.denominator_ = static_cast<std::int64_t>(denominator);
  return result;
}

Rational Rational::rounded_down(Wide numerator, Wide denominator) {
  if (denominator == 0) throw RationalOverflow("a division by zero");
  const Wide common = greatest_common_divisor(numerator, denominator);
  numerator /= common;
  denominator /= common;
  const int excess = std::max(bits_of(numerator), bits_of(denominator)) - 63;
  if (excess <= 0) return of(numerator, denominator);
  const Wide step = Wide{1} << excess;
  const Wide below = numerator / step;
  const Wide above = denominator / step + 1;
  constexpr Wide kEnough = Wide{1} << 21;
  if (below < kEnough || above < kEnough || above > kLargest)
    throw RationalOverflow("a fraction is out of the range of 64-bit parts");
  return of(below, above);
}

Rational Rational::parse(std::string_view text) {
  std::string_view rest = text;
  int digits = 0;
  if (rest.empty() || ((rest.front() < '0' || rest.front() > '9') && rest.front() != '.') || rest == ".") refuse(text);
  std::int64_t mantissa = take_digits(rest, 0, digits, text);
  if (!rest.empty() && rest.front() == '/') {
    rest.remove_prefix(1);
    digits = 0;
    const std::int64_t denominator = take_digits(rest, 0, digits, text);
    if (!rest.empty() || denominator == 0) refuse(text);
    return {mantissa, denominator};
  }
  int decimals = 0;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    const std::size_t before = rest.size();
    mantissa = take_digits(rest, mantissa, digits, text);
    decimals = static_cast<int>(before - rest.size());
  }
  const int exponent = take_exponent(rest, text) - decimals;
  if (!rest.empty()) refuse(text);
  if (mantissa == 0) return {};
  if (exponent < -kMostDigits) throw RationalOverflow(fmt::format("'{}' is too small", text));
  return exponent >= 0 ? of(times(Wide(mantissa), Wide(power_of_ten(exponent))), 1)
                       : Rational(mantissa, power_of_ten(-exponent));
}

std::string Rational::to_string() const {
  for (int decimals = 0; decimals <= kMostDigits; ++decimals) {
    const std::int64_t scale = power_of_ten(decimals);
    if (scale % denominator_ != 0) continue;
    const Wide scaled = Wide(numerator_) * Wide(scale / denominator_);
    if (scaled > kLargest) break;
    const auto number = static_cast<std::int64_t>(scaled);
    if (decimals == 0) return fmt::format("{}", number);
    return fmt::format("{}.{:0{}}", number / scale, number % scale, decimals);
  }
  return fmt::format("{}/{}", numerator_, denominator_);
}

std::strong_ordering Rational::operator<=>(const Rational& other) const {
  return Wide(numerator_) * Wide(other.denominator_) <=> Wide(other.numerator_) * Wide(denominator_);
}

Rational Rational::operator+(const Rational& other) const {
  // Each product is below 2^126, so their sum fits.
  return of(Wide(numerator_) * Wide(other.denominator_) + Wide(other.numerator_) * Wide(denominator_),
            Wide(denominator_) * Wide(other.denominator_));
}

Rational Rational::operator-(const Rational& other) const {
  if (*this < other) throw RationalOverflow(fmt::format("{} - {} is below zero", to_string(), other.to_string()));
  return of(Wide(numerator_) * Wide(other.denominator_) - Wide(other.numerator_) * Wide(denominator_),
            Wide(denominator_) * Wide(other.denominator_));
}

Rational Rational::operator*(const Rational& other) const {
  return of(Wide(numerator_) * Wide(other.numerator_), Wide(denominator_) * Wide(other.denominator_));
}

Rational Rational::operator/(const Rational& other) const {
  return of(Wide(numerator_) * Wide(other.denominator_), Wide(denominator_) * Wide(other.numerator_));
}

}  // namespace tutti
