#include "memory/peer_memory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

#include "base/settings.hpp"

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

Result<Fd> open_descriptor_of(pid_t pid, int descriptor, std::uint64_t inode) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  Fd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!opened) return system_error(fmt::format("opening shared memory of process {} ({})", pid, path));
  struct stat info {};
  if (::fstat(opened.get(), &info) != 0) return system_error("fstat of shared memory");
  if (info.st_ino != inode)
    return fail(ErrorCode::refused, fmt::format("{} is not the memory process {} announced", path, pid));
  return opened;
}

Result<std::byte*> PeerMemory::map(const RegionName& name, std::uint32_t generation) {
  if (generation != generation_) {
    mappings_.clear();
    generation_ = generation;
  }
  if (const auto found = mappings_.find(name.number); found != mappings_.end()) return found->second.data();
  Result<Fd> descriptor = open_descriptor_of(pid_, name.descriptor, name.inode);
  if (!descriptor) return tl::unexpected(descriptor.error());
  struct stat info {};
  if (::fstat(descriptor->get(), &info) != 0) return system_error("fstat of shared memory");
  if (static_cast<std::uint64_t>(info.st_size) < name.bytes)
    return fail(ErrorCode::refused,
                fmt::format("process {} announced {} bytes, its memory has {}", pid_, name.bytes, info.st_size));
  Result<Mapping> mapping = Mapping::of(descriptor->get(), name.bytes);
  if (!mapping) return tl::unexpected(mapping.error());
  return mappings_.emplace(name.number, std::move(*mapping)).first->second.data();
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
