// Reaching into the memory of another process of this host: by mapping its regions, or by cross-memory attach.
// One PeerMemory per peer process and user; used by one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/fd.hpp"
#include "memory/region.hpp"

namespace tutti {

/// Whether the kernel lets processes of this user read each other (tried once, on ourselves, and TUTTI_CMA).
bool cross_memory_attach_works();

class PeerMemory {
 public:
  /// `same_process`: addresses are ours, nothing needs mapping.
  PeerMemory(pid_t pid, bool same_process) : pid_(pid), same_process_(same_process) {}

  bool same_process() const { return same_process_; }

  /// The peer's region, mapped here (and kept mapped until `generation` changes). Offsets are the caller's to check.
  Result<std::byte*> map(const RegionName& name, std::uint32_t generation);

  /// Copies `bytes` from the peer's address space. Fails where the kernel forbids it, or the peer is gone.
  Status pull(void* target, std::uint64_t peer_address, std::size_t bytes) const;

 private:
  pid_t pid_;
  bool same_process_;
  std::uint32_t generation_ = 0;
  std::unordered_map<std::uint32_t, Mapping> mappings_;
};

/// Opens descriptor `descriptor` of process `pid` and verifies that it is the file with this inode.
Result<Fd> open_descriptor_of(pid_t pid, int descriptor, std::uint64_t inode);

}  // namespace tutti
