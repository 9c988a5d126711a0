// Floats whose sum shows in its bits the order in which it was taken: of both signs, of sizes far apart, a few too
// small to be normal. The same for every rank and run, and of no element count.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "random.hpp"

namespace tutti::integration {

/// What a rank gives at an index.
inline float awkward(int rank, std::size_t index) {
  const std::uint64_t drawn = hash(static_cast<std::uint64_t>(rank) + 1, index);
  const auto sign = static_cast<std::uint32_t>(drawn >> 63) << 31;
  const auto mantissa = static_cast<std::uint32_t>(drawn) & 0x7FFFFFU;
  constexpr std::uint32_t kLeast = 115;  // 2^-12 to 2^12
  const std::uint32_t exponent = drawn >> 32 & 63 ? kLeast + static_cast<std::uint32_t>(drawn >> 40) % 25 : 0;
  return std::bit_cast<float>(sign | exponent << 23 | mantissa);
}

inline std::vector<float> awkward_floats(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = awkward(rank, i);
  return values;
}

inline bool same_bits(float left, float right) {
  return std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
}

/// The first index at which bits differ, or the count where none do.
inline std::size_t first_difference(const std::vector<float>& left, const std::vector<float>& right) {
  std::size_t at = 0;
  while (at < left.size() && at < right.size() && same_bits(left[at], right[at])) ++at;
  return at;
}

}  // namespace tutti::integration
