// What buffers hold before a collective and must hold after it, by arithmetic of its own: nothing here calls the
// library's reductions. Values are small integers, chosen per type so that every partial result is exact whatever the
// order; only an average of floats is compared with a tolerance, of one unit in the last place.
// A rank's data repeats with a prime period, so a whole buffer is checked against one tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/types.hpp"

namespace tutti::cli {

/// One element as a number, and back; `encode` takes what the type holds exactly.
double decode(const std::byte* element, DataType type);
void encode(double value, std::byte* element, DataType type);

class Tile {
 public:
  static constexpr std::size_t kPeriod = 8191;

  /// What rank `rank` of `ranks` sends.
  static Tile input(int rank, int ranks, DataType type, Operator op, std::uint64_t seed);
  /// What the reduction over all ranks' inputs gives.
  static Tile reduced(int ranks, DataType type, Operator op, std::uint64_t seed);

  /// Writes `count` elements to `target`, the first being element `phase` of the pattern.
  void fill(std::byte* target, std::size_t count, std::size_t phase) const;
  /// How many of `count` elements at `data` are not as fill() would have written them.
  std::size_t count_wrong(const std::byte* data, std::size_t count, std::size_t phase) const;

 private:
  Tile(DataType type, double tolerance);

  DataType type_;
  std::size_t element_bytes_;
  double tolerance_;  // relative; 0: bit for bit
  std::vector<std::byte> bytes_;
};

/// The factor rank `rank` multiplies its input with in a pre-multiplied sum.
double premultiplier(int rank);

}  // namespace tutti::cli
