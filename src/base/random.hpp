// Random bits of the kernel, for numbers that must not repeat among processes. Any thread.
#pragma once

#include <sys/random.h>

#include <cstdint>

#include "base/clock.hpp"

namespace tutti {

/// Returns bits that nobody else has; a kernel that gives none leaves those of the clock.
inline std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) bits = ticks();
  return bits;
}

}  // namespace tutti
