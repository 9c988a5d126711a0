// What each rank gives to each operation, and what must come out: whole numbers small enough that float32 holds any sum
// of theirs exactly, in whatever order it is taken. No two operations give the same, and no shift of one by less than
// 2^20 elements does, so that a chunk at the wrong place, or of another time, shows. Plain functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::labs {

/// The numbers that one rank gives to one operation.
class Values {
 public:
  Values() = default;
  Values(int rank, std::uint64_t operation);
  /// At an index: 0 to 4095.
  std::uint32_t at(std::size_t index) const { return (static_cast<std::uint32_t>(index) * 0x9E3779B1U + start_) >> 20; }

 private:
  std::uint32_t start_ = 0;
};

/// Those of one rank, from `first` on.
void fill(std::span<float> out, int rank, std::uint64_t operation, std::size_t first = 0);

/// The first index at which `got` is not, bit by bit, the sum of what ranks begin to end - 1 give from `first` on;
/// got.size() where all is right.
std::size_t first_wrong(std::span<const float> got, int begin, int end, std::uint64_t operation, std::size_t first = 0);

/// A number drawn for an operation, the same on all ranks.
std::uint64_t drawn(std::uint64_t operation, std::uint64_t purpose);

}  // namespace tutti::labs
