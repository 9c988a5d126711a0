#include "reduce/reference_test_kit.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "reduce/float_format.hpp"

namespace tutti::reference {
namespace {

double small_value(DataType type, std::uint64_t bits) {
  const FloatFormat format = float_format(type);
  const std::uint64_t top = (std::uint64_t{1} << format.exponent_bits) - 1;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << format.fraction_bits) - 1);
  const bool ieee = type != DataType::float8_e4m3;
  if (!ieee && (bits & 0x7f) == 0x7f) return NAN;
  if (!ieee || (bits >> format.fraction_bits & top) != top) return decode_float(bits, format);
  if (fraction != 0) return NAN;
  return (bits >> (format.exponent_bits + format.fraction_bits) & 1) != 0 ? -INFINITY : INFINITY;
}

/// Every finite value that is not negative, in the order of the codes, which is that of the values.
const std::vector<double>& finite_values(DataType type) {
  static std::array<std::vector<double>, kDataTypes> tables;
  auto& table = tables[static_cast<std::size_t>(type)];
  for (std::uint64_t code = 0; table.size() == code; ++code) {
    const double value = small_value(type, code);
    if (!std::isfinite(value)) break;
    table.push_back(value);
  }
  return table;
}

std::uint64_t quiet_nan(DataType type) {
  switch (type) {
    case DataType::float16:
      return 0x7e00;
    case DataType::bfloat16:
      return 0x7fc0;
    case DataType::float32:
      return 0x7fc00000;
    case DataType::float64:
      return 0x7ff8000000000000;
    case DataType::float8_e4m3:
      return 0x7f;
    default:
      return 0x7e;
  }
}

template <typename T>
T combine_floats(Operator op, T a, T b) {
  switch (op) {
    case Operator::product:
      return a * b;
    case Operator::min:
    case Operator::max:
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
      if (a == b) return std::signbit(a) == (op == Operator::min) ? a : b;
      return (a < b) == (op == Operator::min) ? a : b;
    default:
      return a + b;
  }
}

template <typename T>
T reduce_floats(DataType type, Operator op, std::span<const std::uint64_t> operands, double scale) {
  T result = static_cast<T>(value_of(type, operands[0]));
  for (std::uint64_t operand : operands.subspan(1)) {
    result = combine_floats<T>(op, result, static_cast<T>(value_of(type, operand)));
  }
  return scale == 1.0 ? result : result * static_cast<T>(scale);
}

template <typename T>
T combine_integers(Operator op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case Operator::product:
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    case Operator::min:
      return std::min(a, b);
    case Operator::max:
      return std::max(a, b);
    case Operator::bit_and:
      return static_cast<T>(static_cast<U>(a) & static_cast<U>(b));
    case Operator::bit_or:
      return static_cast<T>(static_cast<U>(a) | static_cast<U>(b));
    case Operator::bit_xor:
      return static_cast<T>(static_cast<U>(a) ^ static_cast<U>(b));
    default:
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}

template <typename T>
std::uint64_t reduce_integers(Operator op, std::span<const std::uint64_t> operands, std::int64_t divisor) {
  T result = static_cast<T>(operands[0]);
  for (std::uint64_t operand : operands.subspan(1)) result = combine_integers<T>(op, result, static_cast<T>(operand));
  if constexpr (std::is_signed_v<T>) {
    result = static_cast<T>(result / divisor);
  } else {
    result = static_cast<T>(result / static_cast<std::uint64_t>(divisor));
  }
  return static_cast<std::make_unsigned_t<T>>(result);
}

}  // namespace

bool is_float(DataType type) { return type >= DataType::float16; }

bool is_nan(DataType type, std::uint64_t bits) { return is_float(type) && std::isnan(value_of(type, bits)); }

double value_of(DataType type, std::uint64_t bits) {
  if (type == DataType::float32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (type == DataType::float64) return std::bit_cast<double>(bits);
  return small_value(type, bits);
}

std::uint64_t nearest(DataType type, double value) {
  if (std::isnan(value)) return quiet_nan(type);
  const std::uint64_t sign = std::signbit(value) ? std::uint64_t{1} << (size_of(type) * 8 - 1) : 0;
  const double magnitude = std::fabs(value);
  const std::vector<double>& values = finite_values(type);
  const std::uint64_t largest = values.size() - 1;
  const bool saturates = size_of(type) == 1;
  if (std::isinf(magnitude)) return sign | (type == DataType::float8_e4m3 ? largest : largest + 1);
  if (magnitude > values.back()) {
    const double half_step = (values[largest] - values[largest - 1]) / 2;
    return sign | (saturates || magnitude < values.back() + half_step ? largest : largest + 1);
  }
  const auto above = static_cast<std::uint64_t>(std::ranges::lower_bound(values, magnitude) - values.begin());
  if (values[above] == magnitude) return sign | above;
  const double up = values[above] - magnitude;
  const double down = magnitude - values[above - 1];
  const bool even_above = above % 2 == 0;
  return sign | (up < down || (up == down && even_above) ? above : above - 1);
}

std::uint64_t reduce(DataType type, Operator op, std::span<const std::uint64_t> operands, double scale,
                     std::int64_t divisor) {
  if (operands.size() == 1 && scale == 1.0 && divisor == 1) return operands[0];
  switch (type) {
    case DataType::int8:
      return reduce_integers<std::int8_t>(op, operands, divisor);
    case DataType::uint8:
      return reduce_integers<std::uint8_t>(op, operands, divisor);
    case DataType::int32:
      return reduce_integers<std::int32_t>(op, operands, divisor);
    case DataType::uint32:
      return reduce_integers<std::uint32_t>(op, operands, divisor);
    case DataType::int64:
      return reduce_integers<std::int64_t>(op, operands, divisor);
    case DataType::uint64:
      return reduce_integers<std::uint64_t>(op, operands, divisor);
    case DataType::float64: {
      const double result = reduce_floats<double>(type, op, operands, scale);
      return std::isnan(result) ? quiet_nan(type) : std::bit_cast<std::uint64_t>(result);
    }
    case DataType::float32: {
      const float result = reduce_floats<float>(type, op, operands, scale);
      return std::isnan(result) ? quiet_nan(type) : std::bit_cast<std::uint32_t>(result);
    }
    default:
      return nearest(type, reduce_floats<float>(type, op, operands, scale));
  }
}

}  // namespace tutti::reference
