// The numbers that travel: small integers, exact in float32 whatever the order of the sum, different for every rank,
// position and batch, so that old or misplaced data is seen.
#pragma once

#include <cstddef>

#include "library.hpp"

namespace peers {

/// Elements of the buffers of one operation.
struct Shape {
  std::size_t send = 0;
  std::size_t recv = 0;
  std::size_t count = 0;  // as Operation::count
};

/// Of an operation whose larger buffer has `bytes`; count is 0 where they cannot be shared out among the ranks.
Shape shape_of(Collective collective, std::size_t bytes, int ranks);

void fill(float* send, std::size_t elements, int rank, std::size_t salt);

/// Makes what find_wrong() looks at wrong.
void spoil(float* recv, std::size_t elements);

/// The index of a wrong element of the result, or `shape.recv`. Looks at some thousands, spread evenly.
std::size_t find_wrong(const Operation& operation, const Shape& shape, int rank, int ranks, std::size_t salt);

}  // namespace peers
