#include "memory/peer_memory.hpp"

#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <utility>

#include "base/settings.hpp"
#include "memory/sealed.hpp"

namespace tutti {

bool cross_memory_attach_works() {
  static const bool works = [] {
    if (!settings().cross_memory_attach) return false;
    const std::uint64_t source = 0x7475747469ULL;
    std::uint64_t target = 0;
    iovec local{&target, sizeof target};
    iovec remote{const_cast<std::uint64_t*>(&source), sizeof source};
    return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == sizeof target && target == source;
  }();
  return works;
}

Result<std::byte*> PeerMemory::map(const RegionName& name, std::uint32_t generation) {
  // What was announced earlier on one link may be read after what was announced later on another.
  if (static_cast<std::int32_t>(generation - generation_) > 0) {
    give_up_freed();
    generation_ = generation;
  }
  if (const auto found = mappings_.find(name.number); found != mappings_.end()) return found->second.mapping.data();
  const Result<OpenedFile> descriptor = open_sealed(pid_, name.descriptor, name.inode, name.bytes);
  if (!descriptor) return tl::unexpected(descriptor.error());
  Result<Mapping> mapping = Mapping::of(descriptor->get(), name.bytes);
  if (!mapping) return tl::unexpected(mapping.error());
  Mapped mapped{std::move(*mapping), name.descriptor, name.inode};
  return mappings_.emplace(name.number, std::move(mapped)).first->second.mapping.data();
}

/// The peer closes a region's descriptor before it counts the region as freed.
void PeerMemory::give_up_freed() {
  for (auto each = mappings_.begin(); each != mappings_.end();) {
    Mapped& mapped = each->second;
    if (is_open(pid_, mapped.descriptor, mapped.inode)) {
      ++each;
      continue;
    }
    if (users_ > 0) freed_.push_back(std::move(mapped.mapping));
    each = mappings_.erase(each);
  }
}

Status PeerMemory::pull(void* target, std::uint64_t peer_address, std::size_t bytes) const {
  auto* to = static_cast<std::byte*>(target);
  while (bytes > 0) {
    iovec local{to, bytes};
    iovec remote{reinterpret_cast<void*>(peer_address), bytes};
    const ssize_t moved = ::process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (moved <= 0) return system_error(fmt::format("reading {} bytes of process {}", bytes, pid_));
    to += moved;
    peer_address += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return {};
}

}  // namespace tutti
