// Floating-point formats as a reader would define them: bits to a number and back, one at a time. For tests and for
// what `tutti bench` checks; the kernels share none of it. Pure functions; any thread.
#pragma once

#include <cstdint>

#include "tutti/types.hpp"

namespace tutti {

struct FloatFormat {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

/// Of a type that is a float.
FloatFormat float_format(DataType type);

/// Infinities and NaN come out as large finite numbers.
double decode_float(std::uint64_t bits, FloatFormat format);
/// To nearest, ties to even; for magnitudes in the format's normal range, and zero.
std::uint64_t encode_float(double value, FloatFormat format);

}  // namespace tutti
