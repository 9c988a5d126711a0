#include "memory/region.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fd.hpp"
#include "memory/peer_memory.hpp"

namespace tutti {
namespace {

/// Buffers of a power of two, one after the other, would compete for the same lines of the caches at the same offsets.
constexpr std::size_t kPaddedFrom = 1 << 20;
constexpr std::size_t kPadding = 17 * 4096;

struct Region {
  RegionName name;
  const std::byte* base = nullptr;
  std::size_t bytes = 0;  // as asked for
};

struct Owner {
  Mapping mapping;
  Fd descriptor;
};

using Table = std::vector<Region>;

// Readers load the snapshot and never free it; writers keep every snapshot alive, since a reader may still hold it.
// Allocations are few and long-lived, so the snapshots are few and small.
class Registry {
 public:
  const Table* snapshot() const { return current_.load(std::memory_order_acquire); }

  void add(Region region, Owner owner) {
    const std::lock_guard lock(mutex_);
    auto next = std::make_unique<Table>(*snapshot());
    region.name.number = ++last_number_;
    next->push_back(region);
    owners_.emplace(region.base, std::move(owner));
    publish(std::move(next));
  }

  bool remove(const void* base) {
    const std::lock_guard lock(mutex_);
    auto next = std::make_unique<Table>(*snapshot());
    const auto found = std::find_if(next->begin(), next->end(), [&](const Region& r) { return r.base == base; });
    if (found == next->end()) return false;
    next->erase(found);
    publish(std::move(next));
    owners_.erase(static_cast<const std::byte*>(base));
    generation_.fetch_add(1, std::memory_order_release);
    return true;
  }

  std::uint32_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  void publish(std::unique_ptr<Table> next) {
    current_.store(next.get(), std::memory_order_release);
    if (held_ != nullptr) retired_.push_back(std::move(held_));
    held_ = std::move(next);
  }

  std::mutex mutex_;
  std::unique_ptr<Table> held_ = std::make_unique<Table>();
  std::vector<std::unique_ptr<Table>> retired_;
  std::map<const std::byte*, Owner> owners_;
  std::atomic<const Table*> current_{held_.get()};
  std::atomic<std::uint32_t> generation_{0};
  std::uint32_t last_number_ = 0;
};

Registry& registry() {
  static Registry* const instance = new Registry;  // outlives every static destructor that may still free memory
  return *instance;
}

}  // namespace

Result<void*> allocate(std::size_t bytes) {
  if (bytes == 0 || bytes > (std::size_t{1} << 46))
    return fail(ErrorCode::invalid_argument, fmt::format("allocate: {} bytes cannot be had", bytes));
  Fd descriptor(::memfd_create("tutti", MFD_CLOEXEC));
  if (!descriptor) return system_error("allocate: memfd_create");
  // Reserves the pages now, so that a full memory file system is an error here and not a SIGBUS later.
  const std::size_t padded = bytes + (bytes >= kPaddedFrom ? kPadding : 0);
  if (const int error = ::posix_fallocate(descriptor.get(), 0, static_cast<off_t>(padded)); error != 0) {
    errno = error;
    return system_error(fmt::format("allocate: reserving {} bytes", bytes));
  }
  Result<Mapping> mapping = Mapping::of(descriptor.get(), padded);
  if (!mapping) return tl::unexpected(mapping.error());
  ::madvise(mapping->data(), padded, MADV_HUGEPAGE);
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0) return system_error("allocate: fstat");
  Region region;
  region.base = mapping->data();
  region.name.descriptor = descriptor.get();
  region.name.inode = info.st_ino;
  region.name.bytes = padded;
  region.bytes = bytes;
  void* const base = mapping->data();
  registry().add(region, {std::move(*mapping), std::move(descriptor)});
  return base;
}

Status deallocate(void* memory) {
  if (!registry().remove(memory))
    return fail(ErrorCode::invalid_argument, fmt::format("deallocate: {} was not given by allocate", memory));
  return {};
}

std::optional<RegionView> find_region(const void* memory, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  for (const Region& region : *registry().snapshot()) {
    const auto base = reinterpret_cast<std::uintptr_t>(region.base);
    if (address >= base && address - base <= region.bytes && region.bytes - (address - base) >= bytes)
      return RegionView{region.name, address - base};
  }
  return std::nullopt;
}

std::uint32_t region_generation() { return registry().generation(); }

Result<Reach> register_buffer(void* memory, std::size_t bytes) {
  if (memory == nullptr || bytes == 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("register_buffer: {} of {} bytes is no buffer", memory, bytes));
  if (find_region(memory, bytes)) return Reach::mapped;
  return cross_memory_attach_works() ? Reach::attached : Reach::staged;
}

Status deregister_buffer(void* memory) {
  if (memory == nullptr) return fail(ErrorCode::invalid_argument, "deregister_buffer: null is no buffer");
  return {};
}

}  // namespace tutti
