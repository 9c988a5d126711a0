// copy and scale: what is done to one source.
#include <cmath>
#include <cstring>
#include <limits>

#include "reduce/reduce.hpp"

namespace tutti {
namespace {

void reduce_one(void* target, const void* source, std::size_t elements, DataType type, double factor, bool stream) {
  ReduceCall call;
  call.targets = &target;
  call.sources = &source;
  call.source_count = 1;
  call.elements = elements;
  call.scale = factor;
  call.stream = stream;
  find_kernel(type, Operator::sum)(call);
}

/// Towards zero; beyond the type's range its nearest end, NaN 0.
template <typename T>
T truncate(double value) {
  // The largest T may not be a double; the power of two after it is.
  constexpr double kPast = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2.0;
  if (value >= kPast) return std::numeric_limits<T>::max();
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return std::isnan(value) ? T{0} : static_cast<T>(value);
}

template <typename T>
void scale_integers(void* target, const void* source, std::size_t elements, double factor) {
  for (std::size_t i = 0; i < elements; ++i) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(source) + i * sizeof(T), sizeof(T));
    value = truncate<T>(static_cast<double>(value) * factor);
    std::memcpy(static_cast<std::byte*>(target) + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

void scale(void* target, const void* source, std::size_t elements, DataType type, double factor) {
  if (factor == 1.0) return copy(target, source, elements * size_of(type), false);
  switch (type) {
    case DataType::int8:
      return scale_integers<std::int8_t>(target, source, elements, factor);
    case DataType::uint8:
      return scale_integers<std::uint8_t>(target, source, elements, factor);
    case DataType::int32:
      return scale_integers<std::int32_t>(target, source, elements, factor);
    case DataType::uint32:
      return scale_integers<std::uint32_t>(target, source, elements, factor);
    case DataType::int64:
      return scale_integers<std::int64_t>(target, source, elements, factor);
    case DataType::uint64:
      return scale_integers<std::uint64_t>(target, source, elements, factor);
    default:
      return reduce_one(target, source, elements, type, factor, false);
  }
}

void copy(void* target, const void* source, std::size_t bytes, bool stream) {
  if (bytes == 0 || target == source) return;
  if (stream) {
    reduce_one(target, source, bytes, DataType::uint8, 1.0, true);
  } else {
    std::memcpy(target, source, bytes);
  }
}

}  // namespace tutti
