// CRC32C, the checksum of iSCSI, SCTP and ext4 (Castagnoli's polynomial, reflected): finds every change of up to 3
// bits, or of an odd number, every burst of up to 32 bits, and all but one in 2^32 of the rest. Not for what an
// adversary may choose. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// Ways to compute it; all return the same.
enum class Crc32cWay : std::uint8_t {
  table,   // any CPU
  sse42,   // the instruction made for it, on three streams at once
  avx512,  // carry-less multiplication of vectors (VPCLMULQDQ)
};

/// Returns the checksum of `bytes`; with `before`, the checksum of other bytes, that of these behind those.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
/// The same in one way; slower ones take its place where the CPU does not have it.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before, Crc32cWay way);
/// Returns the fastest that this CPU has.
Crc32cWay best_crc32c();

}  // namespace tutti
