// Names a process among all that may ever meet: 128 random bits. A value; any thread.
#pragma once

#include <fmt/core.h>
#include <sys/random.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>

namespace tutti {

struct ProcessId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  static ProcessId random() {
    ProcessId id;
    if (::getrandom(&id, sizeof id, 0) != sizeof id) {
      // Without the kernel's randomness: the clock and an address tell processes apart well enough.
      id.high = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
      id.low = reinterpret_cast<std::uintptr_t>(&id);
    }
    return id;
  }
  /// 32 hexadecimal digits.
  std::string to_string() const { return fmt::format("{:016x}{:016x}", high, low); }
  auto operator<=>(const ProcessId&) const = default;
};

}  // namespace tutti
