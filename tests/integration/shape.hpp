// What one rank gives to a case and what it must get, as blocks of elements: the reference the library is held against.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cases.hpp"
#include "elements.hpp"

namespace tutti::integration {

/// Elements that repeat: cheap to make and to compare, and of a prime period, so that data in the wrong place shows.
struct Pattern {
  static constexpr std::size_t kPeriod = 1009;
  std::vector<std::byte> bytes;
};

struct Block {
  std::size_t offset = 0;  // elements
  std::size_t count = 0;
  std::shared_ptr<const Pattern> pattern;

  /// Writes the block to memory that starts at `base`.
  void write(std::byte* base, std::size_t element) const;
};

struct Side {
  std::vector<Block> blocks;
  std::size_t elements = 0;
  bool used = true;  // false: the call must not touch it
};

struct SentMessage {
  int from = 0;
  int to = 0;
  std::size_t count = 0;
  std::size_t send_offset = 0;  // in the input of `from`
  std::size_t recv_offset = 0;  // in the output of `to`
};

struct Shape {
  Side input;
  Side output;
  bool in_place = false;
  std::size_t input_at = 0;  // in place: where each begins in the memory they share
  std::size_t output_at = 0;
  // v-forms: as the call wants them; empty offsets: one after another.
  std::vector<std::size_t> send_counts, send_offsets, recv_counts, recv_offsets;
  std::vector<SentMessage> messages;  // of all ranks, in order

  std::size_t own_count = 0;  // gather_v, scatter_v
};

Shape make_shape(const Case& one, int rank, int ranks);

}  // namespace tutti::integration
