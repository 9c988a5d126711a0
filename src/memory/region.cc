#include "memory/region.hpp"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "memory/peer_memory.hpp"
#include "memory/region_table.hpp"
#include "memory/sealed.hpp"

namespace tutti {
namespace {

/// Buffers of a power of two, one after the other, would compete for the same lines of the caches at the same offsets.
constexpr std::size_t kPaddedFrom = 1 << 20;
constexpr std::size_t kPadding = 17 * 4096;

constexpr std::uintptr_t kPage = 4096;

std::uintptr_t page_down(std::uintptr_t address) { return address / kPage * kPage; }
std::uintptr_t page_up(std::uintptr_t address) { return page_down(address + kPage - 1); }

/// What allocate() gave out once: one region at first, parts of several once some of it was revoked.
struct Allocation {
  struct Part {
    RegionPart what;
    std::shared_ptr<Fd> file;  // shared by what is left of a region that lost its middle
  };
  Mapping mapping;        // unmaps all parts, which lie side by side
  std::size_t bytes = 0;  // as asked for
  std::vector<Part> parts;
};

class Registry {
 public:
  std::optional<RegionView> find(std::uintptr_t begin, std::size_t bytes) const { return table_.find(begin, bytes); }

  void add(Mapping mapping, std::size_t bytes, SealedFile file) {
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<std::uintptr_t>(mapping.data());
    Allocation allocation;
    allocation.parts.push_back(part_of(begin, bytes, mapping.bytes(), std::move(file)));
    allocation.mapping = std::move(mapping);
    allocation.bytes = bytes;
    table_.add(allocation.parts.front().what);
    allocations_.emplace(begin, std::move(allocation));
  }

  bool remove(const void* base) {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(base));
    if (found == allocations_.end()) return false;
    for (const Allocation::Part& part : found->second.parts) table_.remove(part.what.begin);
    allocations_.erase(found);
    // Last: a peer that sees the new count looks whether the descriptor is still open.
    generation_.fetch_add(1, std::memory_order_release);
    return true;
  }

  Status revoke(std::uintptr_t begin, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto found = allocations_.upper_bound(begin);
    if (found == allocations_.begin()) return {};
    Allocation& allocation = (--found)->second;
    const std::uintptr_t end = found->first + allocation.mapping.bytes();
    const std::uintptr_t usable = found->first + allocation.bytes;
    if (begin >= usable) return {};
    const std::uintptr_t from = page_down(begin);
    const std::uintptr_t to = std::min(end, page_up(begin + bytes));
    Result<SealedFile> file = replace_pages(from, to - from);
    if (!file) return tl::unexpected(file.error());
    for (const Allocation::Part& part : allocation.parts) table_.remove(part.what.begin);
    cut(allocation, from, to);
    allocation.parts.push_back(part_of(from, std::min(to, usable) - from, to - from, std::move(*file)));
    for (const Allocation::Part& part : allocation.parts) table_.add(part.what);
    generation_.fetch_add(1, std::memory_order_release);
    return {};
  }

  std::uint32_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  Allocation::Part part_of(std::uintptr_t begin, std::size_t bytes, std::size_t file_bytes, SealedFile file) {
    Allocation::Part part;
    part.what.begin = begin;
    part.what.bytes = bytes;
    part.what.name = {file.descriptor.get(), ++last_number_, file.inode, file_bytes};
    part.file = std::make_shared<Fd>(std::move(file.descriptor));
    return part;
  }

  /// Puts a copy of the pages in their place, in one step for all other threads.
  static Result<SealedFile> replace_pages(std::uintptr_t from, std::size_t bytes) {
    Result<SealedFile> file = create_sealed("tutti", bytes, Pages::at_once);
    if (!file) return file;
    void* const copy = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor.get(), 0);
    if (copy == MAP_FAILED) return system_error(fmt::format("mapping {} bytes of shared memory", bytes));
    ::madvise(copy, bytes, MADV_HUGEPAGE);
    void* const place = reinterpret_cast<void*>(from);
    std::memcpy(copy, place, bytes);
    if (::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED) {
      const tl::unexpected<Error> failed = system_error(fmt::format("replacing {} bytes of shared memory", bytes));
      ::munmap(copy, bytes);
      return failed;
    }
    return file;
  }

  /// Takes [from, to) out of the parts of an allocation.
  static void cut(Allocation& allocation, std::uintptr_t from, std::uintptr_t to) {
    std::vector<Allocation::Part> left;
    for (Allocation::Part& part : allocation.parts) {
      const std::uintptr_t begin = part.what.begin;
      const std::uintptr_t end = begin + part.what.bytes;
      if (begin < from) {
        left.push_back(part);
        left.back().what.bytes = std::min(end, from) - begin;
      }
      if (end > to) {
        left.push_back(part);
        left.back().what.begin = std::max(begin, to);
        left.back().what.bytes = end - left.back().what.begin;
        left.back().what.offset += left.back().what.begin - begin;
      }
    }
    allocation.parts = std::move(left);
  }

  std::mutex mutex_;
  RegionTable table_;  // written under the mutex
  std::map<std::uintptr_t, Allocation> allocations_;
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
  const std::size_t padded = page_up(bytes + (bytes >= kPaddedFrom ? kPadding : 0));
  Result<SealedFile> file = create_sealed("tutti", padded, Pages::at_once);
  if (!file) return fail(file.error().code, fmt::format("allocate({}): {}", bytes, file.error().message));
  Result<Mapping> mapping = Mapping::of(file->descriptor.get(), padded);
  if (!mapping) return tl::unexpected(mapping.error());
  ::madvise(mapping->data(), padded, MADV_HUGEPAGE);
  void* const base = mapping->data();
  registry().add(std::move(*mapping), bytes, std::move(*file));
  return base;
}

Status deallocate(void* memory) {
  if (!registry().remove(memory))
    return fail(ErrorCode::invalid_argument, fmt::format("deallocate: {} was not given by allocate", memory));
  return {};
}

std::optional<RegionView> find_region(const void* memory, std::size_t bytes) {
  return registry().find(reinterpret_cast<std::uintptr_t>(memory), bytes);
}

Status revoke(void* memory, std::size_t bytes) {
  if (memory == nullptr || bytes == 0) return {};
  return registry().revoke(reinterpret_cast<std::uintptr_t>(memory), bytes);
}

std::uint32_t region_generation() { return registry().generation(); }

Result<Reach> register_buffer(void* memory, std::size_t bytes) {
  if (memory == nullptr || bytes == 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("register_buffer: {} of {} bytes is no buffer", memory, bytes));
  if (find_region(memory, bytes)) return Reach::mapped;
  // Of all that msync does, MS_ASYNC leaves only the check that every page is mapped.
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t begin = page_down(address);
  if (bytes > ~address || ::msync(reinterpret_cast<void*>(begin), address + bytes - begin, MS_ASYNC) != 0)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("register_buffer: not all of the {} bytes at {} are memory of this process", bytes, memory));
  return cross_memory_attach_works() ? Reach::attached : Reach::staged;
}

Status deregister_buffer(void* memory) {
  if (memory == nullptr) return fail(ErrorCode::invalid_argument, "deregister_buffer: null is no buffer");
  return {};
}

}  // namespace tutti
