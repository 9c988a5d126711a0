// Memory that peers on the same host can map and access directly, which is what makes large collectives fastest.
// Thread-safe. Memory may be used by any communicator of the process.
#pragma once

#include <cstddef>

#include "tutti/error.hpp"

namespace tutti {

/// Returns zeroed, page-aligned memory that peers can map. It is freed by deallocate(), or at exit.
///
/// Peers write results straight into it while a call runs on it, and never once that call has returned, whether it
/// failed or not: if a peer in another process stands still in the middle of a call that fails, the pages of the call's
/// buffers are replaced by copies at the same addresses, and what that peer writes later goes nowhere. In that moment
/// other threads must not write into the pages that the call's buffers begin and end in.
[[nodiscard]] Result<void*> allocate(std::size_t bytes);
/// Frees memory of allocate(), which no call may be using. Peers that still read it, in a call that failed here, keep
/// its pages alive until they are done.
[[nodiscard]] Status deallocate(void* memory);

enum class Reach {
  mapped,    // peers map it: loads and stores, no copy
  attached,  // peers read it through the kernel (cross-memory attach)
  staged,    // peers cannot reach it: data is copied through shared memory
};

/// Returns how peers in other processes of this host can reach [memory, memory + bytes) in calls; fails if the range is
/// not all memory of this process. This only answers: nothing is recorded, calls take the same path for buffers that
/// were never registered, and a call whose ranks bring buffers of different kinds takes the path that serves all. The
/// answer holds until the memory is unmapped.
[[nodiscard]] Result<Reach> register_buffer(void* memory, std::size_t bytes);
/// The counterpart of register_buffer(), for callers that pair the two. Checks its argument and frees nothing.
[[nodiscard]] Status deregister_buffer(void* memory);

}  // namespace tutti
