// Memory for a call, with guard bytes on both sides, in ordinary memory or in tutti's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tutti/memory.hpp"

namespace tutti::integration {

class GuardedBuffer {
 public:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::byte kFill{0xA5};

  GuardedBuffer() = default;
  /// `shift` moves the data away from the alignment of a cache line.
  GuardedBuffer(std::size_t bytes, std::size_t shift, bool allocated)
      : bytes_(bytes + shift + 2 * kGuard), front_(kGuard + shift), allocated_(allocated) {
    if (allocated) {
      const Result<void*> memory = allocate(bytes_);
      memory_ = memory ? static_cast<std::byte*>(*memory) : nullptr;
    } else {
      memory_ = static_cast<std::byte*>(std::malloc(bytes_));
    }
    if (memory_ == nullptr) std::abort();
    std::memset(memory_, static_cast<int>(kFill), bytes_);
  }
  GuardedBuffer(GuardedBuffer&& other) noexcept { *this = std::move(other); }
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(front_, other.front_);
    std::swap(allocated_, other.allocated_);
    return *this;
  }
  ~GuardedBuffer() {
    if (memory_ == nullptr) return;
    if (!allocated_)
      std::free(memory_);
    else if (!deallocate(memory_))
      std::abort();
  }

  std::byte* data() const { return memory_ + front_; }
  /// With the guards.
  const std::byte* whole() const { return memory_; }
  std::size_t whole_bytes() const { return bytes_; }
  std::size_t front() const { return front_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t front_ = 0;
  bool allocated_ = false;
};

}  // namespace tutti::integration
