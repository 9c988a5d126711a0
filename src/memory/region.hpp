// Memory of this process that peers can map: what tutti::allocate() gives out.
// Thread-safe. Lookups take no lock and wait for nobody (region_table.hpp).
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

/// Returns the region that holds [memory, memory + bytes) whole, if any.
std::optional<RegionView> find_region(const void* memory, std::size_t bytes);

/// Counts regions that are gone: peers give up mappings of regions that are no more when it has grown.
std::uint32_t region_generation();

/// Takes [memory, memory + bytes) away from all peers that have mapped it: from now on their stores go nowhere. The
/// whole pages of the range are replaced, at the same address and with the same contents, by a region of another
/// number, which later operations announce. Bytes of the range that peers write meanwhile may come along or not; other
/// bytes of its first and last page must not be written by other threads meanwhile. Does nothing to memory that is not
/// of allocate(): peers cannot map it.
Status revoke(void* memory, std::size_t bytes);

}  // namespace tutti
