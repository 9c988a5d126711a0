// Reaching into the memory of another process of this host: by mapping its regions, or by cross-memory attach.
// One PeerMemory per peer process and user; used by one thread at a time.
//
// A mapping belongs to one region, whose number is never given to another. It is given up once the peer has freed that
// region, but not while it may be in use: operations that work on a peer's memory, and frames that are read from it,
// say when they begin and end. What happens to other regions of the peer does not touch it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

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

  /// Between the two nothing is unmapped: pointers that map() returned stay good. May be nested.
  void begin_use() { ++users_; }
  void end_use() {
    if (--users_ == 0 && !freed_.empty()) freed_.clear();
  }

  /// Returns the peer's region, mapped here. `generation` is the peer's count of freed regions when it announced this
  /// one; when it has grown, mappings of regions that are gone are given up. Offsets are the caller's to check.
  Result<std::byte*> map(const RegionName& name, std::uint32_t generation);

  /// Regions that are mapped, those included that are freed and still in use.
  std::size_t mapped() const { return mappings_.size() + freed_.size(); }

  /// Copies `bytes` from the peer's address space. Fails if the kernel forbids it, or the peer is gone.
  Status pull(void* target, std::uint64_t peer_address, std::size_t bytes) const;

 private:
  struct Mapped {
    Mapping mapping;
    std::int32_t descriptor;
    std::uint64_t inode;
  };

  void give_up_freed();

  pid_t pid_;
  bool same_process_;
  std::uint32_t generation_ = 0;
  int users_ = 0;
  std::unordered_map<std::uint32_t, Mapped> mappings_;  // by number of the region
  std::vector<Mapping> freed_;                          // by the peer, while there are users
};

}  // namespace tutti
