#include "reduce/float_format.hpp"

#include <cmath>
#include <cstdlib>

namespace tutti {

FloatFormat float_format(DataType type) {
  switch (type) {
    case DataType::float16:
      return {5, 10};
    case DataType::bfloat16:
      return {8, 7};
    case DataType::float8_e4m3:
      return {4, 3};
    case DataType::float8_e5m2:
      return {5, 2};
    case DataType::float32:
      return {8, 23};
    case DataType::float64:
      return {11, 52};
    default:
      std::abort();
  }
}

double decode_float(std::uint64_t bits, FloatFormat format) {
  const std::uint64_t one = std::uint64_t{1} << format.fraction_bits;
  const std::uint64_t fraction = bits & (one - 1);
  const int exponent = static_cast<int>(bits >> format.fraction_bits) & ((1 << format.exponent_bits) - 1);
  const bool negative = (bits >> (format.exponent_bits + format.fraction_bits) & 1) != 0;
  const int scale = (exponent == 0 ? 1 : exponent) - format.bias() - format.fraction_bits;
  const double magnitude = std::ldexp(static_cast<double>(exponent == 0 ? fraction : one + fraction), scale);
  return negative ? -magnitude : magnitude;
}

std::uint64_t encode_float(double value, FloatFormat format) {
  const std::uint64_t sign =
      std::signbit(value) ? std::uint64_t{1} << (format.exponent_bits + format.fraction_bits) : 0;
  if (value == 0.0) return sign;
  int exponent = 0;
  const double half = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(half, format.fraction_bits + 1)));
  // A mantissa rounded up to the next power of two carries into the exponent by this addition.
  return sign + (static_cast<std::uint64_t>(exponent - 2 + format.bias()) << format.fraction_bits) + mantissa;
}

}  // namespace tutti
