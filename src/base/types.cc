#include "tutti/types.hpp"

namespace tutti {

std::size_t size_of(DataType type) {
  static constexpr std::size_t kSizes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1};
  return kSizes[static_cast<int>(type)];
}

std::string_view name_of(DataType type) {
  static constexpr std::string_view kNames[kDataTypes] = {"int8",    "uint8",   "int32",       "uint32",
                                                          "int64",   "uint64",  "float16",     "bfloat16",
                                                          "float32", "float64", "float8_e4m3", "float8_e5m2"};
  const auto index = static_cast<std::size_t>(type);
  return index < kDataTypes ? kNames[index] : "?";
}

std::string_view name_of(Operator op) {
  static constexpr std::string_view kNames[kOperators] = {
      "sum", "product", "min", "max", "average", "premultiplied_sum", "and", "or", "xor", "user"};
  const auto index = static_cast<std::size_t>(op);
  return index < kOperators ? kNames[index] : "?";
}

Reduction Reduction::premultiplied(double factor) {
  Reduction reduction(Operator::premultiplied_sum);
  reduction.factor = factor;
  return reduction;
}

Reduction Reduction::user(UserFunction function, void* context) {
  Reduction reduction(Operator::user);
  reduction.function = function;
  reduction.context = context;
  return reduction;
}

}  // namespace tutti
