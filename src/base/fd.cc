#include "base/fd.hpp"

#include <fmt/core.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace tutti {
namespace {

// Which descriptors a forked child must close. A plain bitmap of atomics: the atfork handler may only do
// async-signal-safe work.
constexpr int kTracked = 1 << 16;
std::atomic<unsigned char> g_owned[kTracked];

void close_in_child() {
  for (int descriptor = 0; descriptor < kTracked; ++descriptor)
    if (g_owned[descriptor].load(std::memory_order_relaxed) != 0) {
      g_owned[descriptor].store(0, std::memory_order_relaxed);
      ::close(descriptor);
    }
}

void track(int descriptor, bool owned) {
  static const int registered = pthread_atfork(nullptr, nullptr, close_in_child);
  (void)registered;
  if (descriptor >= 0 && descriptor < kTracked) g_owned[descriptor].store(owned ? 1 : 0, std::memory_order_relaxed);
}

}  // namespace

Fd::Fd(int descriptor) : descriptor_(descriptor) { track(descriptor, true); }

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Fd::reset() {
  if (descriptor_ < 0) return;
  // A child of fork finds its copy already closed by the handler, and must not close a number reused since.
  const bool ours = descriptor_ >= kTracked || g_owned[descriptor_].load(std::memory_order_relaxed) != 0;
  track(descriptor_, false);
  if (ours) ::close(descriptor_);
  descriptor_ = -1;
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Result<Mapping> Mapping::of(int descriptor, std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return system_error(fmt::format("mapping {} bytes of shared memory", bytes));
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(address);
  mapping.bytes_ = bytes;
  return mapping;
}

void Mapping::reset() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

tl::unexpected<Error> system_error(const std::string& what) {
  return fail(ErrorCode::system, fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace tutti
