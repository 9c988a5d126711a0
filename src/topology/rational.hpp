// An exact fraction that is never negative: bandwidths, latencies and bounds are compared and proven with it.
//
// Both parts have 63 bits and are kept in lowest terms; what an operation needs in between has 128. A result that does
// not fit throws RationalOverflow, as do a division by zero and a difference below zero: never a wrong number. The
// functions that read files or compute bounds catch it and return an Error. Plain value; safe to use from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tutti {

using Wide = unsigned __int128;

struct RationalOverflow : std::overflow_error {
  using std::overflow_error::overflow_error;
};

class Rational {
 public:
  constexpr Rational() = default;  // zero
  Rational(std::int64_t whole);    // NOLINT(google-explicit-constructor): a whole number is a fraction
  Rational(std::int64_t numerator, std::int64_t denominator);

  static Rational of(Wide numerator, Wide denominator);
  /// The fraction itself where it fits, else one that fits and is less by less than a millionth: a lower bound that
  /// stays one. Throws where the fraction is too large or too small for that.
  static Rational rounded_down(Wide numerator, Wide denominator);
  /// "12.5", "1e-6", "5/3"; throws std::invalid_argument for anything else.
  static Rational parse(std::string_view text);

  std::int64_t numerator() const { return numerator_; }
  std::int64_t denominator() const { return denominator_; }
  bool is_zero() const { return numerator_ == 0; }
  double value() const { return static_cast<double>(numerator_) / static_cast<double>(denominator_); }
  /// Reads back by parse(): a decimal where there is a finite one, else "5/3".
  std::string to_string() const;

  bool operator==(const Rational&) const = default;
  std::strong_ordering operator<=>(const Rational& other) const;
  Rational operator+(const Rational& other) const;
  Rational operator-(const Rational& other) const;
  Rational operator*(const Rational& other) const;
  Rational operator/(const Rational& other) const;
  Rational& operator+=(const Rational& other) { return *this = *this + other; }

 private:
  std::int64_t numerator_ = 0;
  std::int64_t denominator_ = 1;
};

}  // namespace tutti
