#include "values.hpp"

#include <algorithm>
#include <bit>

namespace tutti::labs {

namespace {

constexpr std::size_t kBlock = 1024;

// Without an exit from the loop: compilers make vector code of it.
bool all_right(const float* got, std::size_t count, const Values* ranks, int size, std::size_t first) {
  std::uint32_t sums[kBlock] = {};
  for (int rank = 0; rank < size; ++rank)
    for (std::size_t i = 0; i < count; ++i) sums[i] += ranks[rank].at(first + i);
  std::uint32_t difference = 0;
  for (std::size_t i = 0; i < count; ++i)
    difference |= std::bit_cast<std::uint32_t>(got[i]) ^
                  std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(sums[i])));
  return difference == 0;
}

}  // namespace

std::uint64_t drawn(std::uint64_t operation, std::uint64_t purpose) {
  // The finisher of SplitMix64.
  std::uint64_t value = (operation + 1) * 0x9E3779B97F4A7C15ULL + purpose * 0xD1342543DE82EF95ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

Values::Values(int rank, std::uint64_t operation)
    : start_(static_cast<std::uint32_t>(drawn(operation, 100 + static_cast<std::uint64_t>(rank)))) {}

void fill(std::span<float> out, int rank, std::uint64_t operation, std::size_t first) {
  const Values values(rank, operation);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(static_cast<std::int32_t>(values.at(first + i)));
}

std::size_t first_wrong(std::span<const float> got, int begin, int end, std::uint64_t operation, std::size_t first) {
  constexpr int kRanks = 64;
  Values ranks[kRanks] = {};
  const int size = std::min(end - begin, kRanks);
  for (int i = 0; i < size; ++i) ranks[i] = Values(begin + i, operation);
  for (std::size_t at = 0; at < got.size(); at += kBlock) {
    const std::size_t count = std::min(kBlock, got.size() - at);
    if (all_right(&got[at], count, ranks, size, first + at)) continue;
    for (std::size_t i = at; i < at + count; ++i)
      if (!all_right(&got[i], 1, ranks, size, first + i)) return i;
  }
  return got.size();
}

}  // namespace tutti::labs
