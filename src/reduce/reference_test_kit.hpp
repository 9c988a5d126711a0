// For tests: the arithmetic of reductions as a reader would define it, one element at a time and slowly. Elements are
// bit patterns in the low bits of a word. Shares no code with the kernels.
#pragma once

#include <cstdint>
#include <span>

#include "tutti/types.hpp"

namespace tutti::reference {

bool is_float(DataType type);
bool is_nan(DataType type, std::uint64_t bits);

/// The value of a float; exact, as every type fits a double.
double value_of(DataType type, std::uint64_t bits);
/// The float of a 16-bit or 8-bit type nearest to `value`, by search among all of them.
std::uint64_t nearest(DataType type, double value);

/// operands[0] op operands[1] op ..., then times `scale` or divided by `divisor`.
std::uint64_t reduce(DataType type, Operator op, std::span<const std::uint64_t> operands, double scale,
                     std::int64_t divisor);

}  // namespace tutti::reference
