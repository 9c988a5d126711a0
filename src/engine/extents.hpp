// Where the chunks of a call lie: the extent table a program's chunk indices are bound to.
// Both ends of a transfer compute the same lengths from the same counts, so none travel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace tutti {

struct Extent {
  std::size_t offset = 0;  // bytes
  std::size_t bytes = 0;
};

/// A buffer as blocks (one per rank, or one in all), each split evenly into `chunks`.
struct Extents {
  std::size_t element = 1;
  int chunks = 1;                        // per block
  std::size_t count = 0;                 // elements of a block, where all are alike
  std::span<const std::size_t> counts;   // else one per block
  std::span<const std::size_t> offsets;  // empty: one after another
  int only_block = -1;                   // the buffer holds this block alone (chunk indices start at 0)

  std::size_t block_count(int block) const { return counts.empty() ? count : counts[static_cast<std::size_t>(block)]; }

  std::size_t block_offset(int block) const {
    if (only_block >= 0) return 0;
    if (!offsets.empty()) return offsets[static_cast<std::size_t>(block)];
    if (counts.empty()) return count * static_cast<std::size_t>(block);
    std::size_t sum = 0;
    for (int before = 0; before < block; ++before) sum += counts[static_cast<std::size_t>(before)];
    return sum;
  }

  Extent of(int chunk) const {
    const int block = only_block >= 0 ? only_block : chunk / chunks;
    const std::size_t elements = block_count(block);
    const std::size_t base = block_offset(block);
    if (chunks == 1) return {base * element, elements * element};
    const auto index = static_cast<std::size_t>(only_block >= 0 ? chunk : chunk % chunks);
    const std::size_t per = elements_per_chunk(elements);
    const std::size_t begin = std::min(index * per, elements);
    const std::size_t end = std::min(begin + per, elements);
    return {(base + begin) * element, (end - begin) * element};
  }

  /// The largest chunk of `blocks` blocks, in bytes.
  std::size_t largest(int blocks) const {
    std::size_t most = 0;
    if (counts.empty() || only_block >= 0) return elements_per_chunk(block_count(std::max(only_block, 0))) * element;
    for (int block = 0; block < blocks; ++block)
      most = std::max(most, elements_per_chunk(block_count(block)) * element);
    return most;
  }

  /// From the first to the last byte of a buffer of `blocks` blocks.
  std::size_t whole(int blocks) const {
    if (only_block >= 0) return block_count(only_block) * element;
    if (counts.empty() && offsets.empty()) return count * static_cast<std::size_t>(blocks) * element;
    std::size_t end = 0;
    std::size_t next = 0;
    for (int block = 0; block < blocks; ++block) {
      const std::size_t held = block_count(block);
      const std::size_t offset = offsets.empty() ? next : offsets[static_cast<std::size_t>(block)];
      next = offset + held;
      if (held > 0) end = std::max(end, next);
    }
    return end * element;
  }

  /// Whether all chunks have the same size.
  bool alike() const { return chunks == 1 || elements_per_chunk(count) * static_cast<std::size_t>(chunks) == count; }

 private:
  /// Chunks start on cache lines relative to their block, so that two ranks never write the same line.
  std::size_t elements_per_chunk(std::size_t elements) const {
    if (chunks == 1) return elements;
    const auto parts = static_cast<std::size_t>(chunks);
    const std::size_t line = std::max<std::size_t>(1, 64 / element);
    const std::size_t even = (elements + parts - 1) / parts;
    return (even + line - 1) / line * line;
  }
};

}  // namespace tutti
