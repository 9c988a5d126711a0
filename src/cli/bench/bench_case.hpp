// The collectives `tutti bench` knows: how much each moves, how to call it, what it must leave behind.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::cli {

/// Elements of one rank's buffers for a call with `count`.
struct Elements {
  std::size_t send = 0;
  std::size_t recv = 0;
};

/// Where a rank's buffers lie, and the call's other arguments.
struct BenchCall {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  Reduction reduction;
  int root = 0;
};

/// `count` elements of the receive buffer from `offset` on must hold `source`'s input from `phase` on; kReduced: the
/// reduction of all ranks' inputs.
struct Expectation {
  static constexpr int kReduced = -1;
  std::size_t offset = 0;
  std::size_t count = 0;
  int source = kReduced;
  std::size_t phase = 0;
};

struct BenchCase {
  const char* name;
  bool reduces;
  bool rooted;
  bool blocks;    // the size is split over the ranks: count is per rank
  bool in_place;  // can run in place
  bool moves_data = true;

  Status run(Communicator& communicator, const BenchCall& call) const;

  std::size_t count_of(std::size_t bytes, std::size_t element_bytes, int ranks) const;
  Elements elements(std::size_t count, int ranks) const;
  /// Offset of the send and receive pointer, in elements, in the one buffer of an in-place call.
  Elements in_place_offsets(std::size_t count, int rank) const;
  std::vector<Expectation> expectations(std::size_t count, int rank, int ranks, int root) const;
  /// Bus bandwidth over algorithm bandwidth.
  double bus_factor(int ranks) const;
};

const std::vector<BenchCase>& bench_cases();
const BenchCase* find_bench_case(std::string_view name);

}  // namespace tutti::cli
