// Random numbers that are the same for every rank, compiler and run, so that ranks can draw the same cases from a seed.
// A plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti::integration {

/// Spreads the bits of one word (the finisher of SplitMix64).
inline std::uint64_t spread(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

template <typename... Words>
std::uint64_t hash(std::uint64_t first, Words... rest) {
  std::uint64_t result = spread(first);
  ((result = spread(result ^ static_cast<std::uint64_t>(rest))), ...);
  return result;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() { return spread(state_++ * 0xD1342543DE82EF95ULL); }
  /// 0 .. limit - 1.
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }
  /// first .. last.
  std::size_t between(std::size_t first, std::size_t last) { return first + below(last - first + 1); }
  bool one_in(std::size_t many) { return below(many) == 0; }

  template <typename Item>
  void shuffle(std::vector<Item>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace tutti::integration
