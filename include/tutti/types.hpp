// The element types and reduction operators every collective speaks of.
// Plain values; safe to use from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

enum class DataType : std::uint8_t {
  int8,
  uint8,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  float8_e4m3,  // OCP e4m3: no infinity, overflow saturates to +-448
  float8_e5m2,  // OCP e5m2: overflow saturates to +-57344
};
inline constexpr int kDataTypes = 12;

/// Bytes of one element.
std::size_t size_of(DataType type);
/// "float32", and so on; "?" for a value outside the enumeration.
std::string_view name_of(DataType type);

enum class Operator : std::uint8_t {
  sum,  // integers wrap; fp8 saturates
  product,
  min,  // NaN in any operand gives NaN
  max,
  average,            // floats: sum scaled once, in the accumulator; integers: sum / ranks, towards zero
  premultiplied_sum,  // each rank's input times that rank's factor, then sum
  bit_and,            // integers only
  bit_or,
  bit_xor,
  user,  // a function of the caller's
};
inline constexpr int kOperators = 10;

std::string_view name_of(Operator op);

/// result[i] = left[i] op right[i]. `result` may be the same memory as `left` or `right`.
/// Must be associative; operands keep rank order (left holds the lower ranks).
using UserFunction = void (*)(const void* left, const void* right, void* result, std::size_t count, DataType type,
                              void* context);

/// An operator with what it needs. Implicit from Operator, so that `Operator::sum` can be passed as is.
struct Reduction {
  Operator op = Operator::sum;
  double factor = 1.0;  // premultiplied_sum: this rank's factor
  UserFunction function = nullptr;
  void* context = nullptr;

  Reduction() = default;
  Reduction(Operator o) : op(o) {}  // NOLINT(google-explicit-constructor)
  static Reduction premultiplied(double factor);
  static Reduction user(UserFunction function, void* context = nullptr);
};

}  // namespace tutti
