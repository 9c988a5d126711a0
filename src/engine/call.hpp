// One call of a collective, as the user made it, checked and ready to be bound to a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "program/program.hpp"
#include "transport/link.hpp"
#include "tutti/types.hpp"

namespace tutti {

struct Call {
  Collective collective = Collective::barrier;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;  // elements: whole vector, or a block where blocks are alike
  DataType type = DataType::uint8;
  Reduction reduction;
  int root = 0;       // point_to_point: the peer
  bool sends = true;  // point_to_point: which end
  bool in_place = false;
  bool uneven = false;  // a v-form: the spans below hold one entry per rank
  std::span<const std::size_t> send_counts;
  std::span<const std::size_t> send_offsets;
  std::span<const std::size_t> recv_counts;
  std::span<const std::size_t> recv_offsets;
};

/// What all ranks must agree on, hashed. The counts of v-forms count only where all ranks know them.
std::uint32_t signature_of(const Call& call);

/// Bytes by which programs are selected: the whole vector, or all blocks together.
std::size_t bytes_of(const Call& call, int ranks);

}  // namespace tutti
