// What ranks of a test call: the buffers of one collective on all ranks, filled by a seed, and what must come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/call.hpp"

namespace tutti {

/// A collective that all ranks call.
struct Task {
  Collective collective = Collective::all_reduce;
  int ranks = 2;
  std::size_t count = 0;
  DataType type = DataType::int32;
  Reduction reduction{};
  int root = 0;
  bool in_place = false;
  std::vector<std::size_t> counts{};  // of a v-form: by rank; all_to_all: by sender, then receiver
  std::size_t gap = 0;                // of a v-form: elements between blocks
  std::uint64_t seed = 1;             // of the numbers in the input
};

/// A reduction that is associative and depends on the order of its operands. For elements of 64 bits.
Reduction ordered_reduction();

/// The buffers of a task on all ranks, and what must come out.
class Exercise {
 public:
  explicit Exercise(Task task);
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;

  const Task& task() const { return task_; }
  const Call& call(int rank) const { return ranks_[static_cast<std::size_t>(rank)].call; }
  /// Returns what is wrong with the buffers of a rank that is done, guard bytes and input included; empty: nothing is.
  std::string mistakes_of(int rank) const;
  std::string mistakes() const;
  /// Returns whether a rank's buffers hold what they held at first.
  bool is_untouched(int rank) const;

 private:
  struct Side {
    std::vector<std::size_t> counts;                     // of the blocks that the buffer holds
    std::vector<std::size_t> positions;                  // where they begin, in elements
    std::vector<std::size_t> told_counts, told_offsets;  // what the call says, if it is a v-form
    std::size_t elements = 0;
    int memory = 0;         // which of the rank's
    std::size_t begin = 0;  // bytes from the beginning of that memory
  };
  struct Rank {
    Side sides[2];  // input, output
    std::vector<std::byte> memory[2];
    std::vector<std::byte> at_first[2];
    std::vector<std::byte> expected[2];
    Call call;
  };

  bool holds_all_blocks(Buffer buffer) const;
  bool has(int rank, Buffer buffer) const;
  bool is_in_place(int rank) const;
  std::size_t count_of(int rank, Buffer buffer, int block) const;
  void lay_out(int rank, Buffer buffer);
  void allocate(int rank);
  void make_call(int rank);
  std::uint64_t number_of(int rank, int block, std::size_t index) const;
  std::uint64_t result_of(int rank, int block, std::size_t index) const;
  template <typename NumberOf>
  void fill(const Side& side, std::vector<std::byte>* memory, NumberOf number);

  const Task task_;
  std::vector<Rank> ranks_;
};

}  // namespace tutti
