// Memory of this process that peers can map: what tutti::allocate() gives out.
// Lookups take no lock: the table is an immutable snapshot, replaced on change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tutti/memory.hpp"

namespace tutti {

/// How another process finds a region: /proc/<pid>/fd/<descriptor>, verified by inode.
struct RegionName {
  std::int32_t descriptor = -1;  // -1: ordinary memory, no region
  std::uint32_t number = 0;      // unique in the process; never reused
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
};

struct RegionView {
  RegionName name;
  std::uint64_t offset = 0;  // of the asked address in the region
};

/// The region that holds [memory, memory + bytes) whole, if any.
std::optional<RegionView> find_region(const void* memory, std::size_t bytes);

/// Counts deallocations: peers drop their mappings of this process's regions when it has changed.
std::uint32_t region_generation();

}  // namespace tutti
