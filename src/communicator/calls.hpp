// From a user's arguments to a Call, or an error that names the value at fault.
#pragma once

#include <cstddef>
#include <span>

#include "engine/call.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// The rank and size a call is checked against.
struct Caller {
  int rank = 0;
  int size = 1;
};

/// Checks buffers, count, type, operator and root, and finds out whether the call is in place.
Result<Call> make_call(Caller caller, Collective collective, const void* send, void* recv, std::size_t count,
                       DataType type, const Reduction& reduction = {}, int root = 0);

/// Uneven blocks: one count per rank, and offsets or none.
struct Blocks {
  std::span<const std::size_t> counts;
  std::span<const std::size_t> offsets;
};
Result<Call> make_uneven_call(Caller caller, Collective collective, const void* send, Blocks send_blocks, void* recv,
                              Blocks recv_blocks, DataType type, const Reduction& reduction = {}, int root = 0);

Result<Call> make_point_to_point_call(Caller caller, bool sends, void* data, std::size_t count, DataType type,
                                      int peer);

/// Whether input and output are the same memory, where the collective defines that; `own` is the offset in elements of
/// this rank's block.
bool is_in_place(Collective collective, const void* send, const void* recv, std::size_t own, std::size_t element);

/// Whether the buffers this rank needs are there and aligned; makes those it has no use for null.
bool fit_to_repeat(Caller caller, Collective collective, int root, const void*& send, void*& recv, std::size_t element);

}  // namespace tutti
