// Memory that peers on the same host can map and access directly, which is what makes large collectives fastest.
// Thread-safe. Memory may be used by any communicator of the process.
#pragma once

#include <cstddef>

#include "tutti/error.hpp"

namespace tutti {

/// Zeroed, page-aligned memory that peers can map. Freed with deallocate(), or at exit.
Result<void*> allocate(std::size_t bytes);
/// Gives memory of allocate() back. Peers that still read it keep it alive until they are done.
Status deallocate(void* memory);

enum class Reach {
  mapped,    // peers map it: loads and stores, no copy
  attached,  // peers read it through the kernel (cross-memory attach)
  staged,    // peers cannot reach it: data is copied through shared memory
};

/// Says how peers of this host will reach [memory, memory + bytes), and fixes that path.
Result<Reach> register_buffer(void* memory, std::size_t bytes);
Status deregister_buffer(void* memory);

}  // namespace tutti
