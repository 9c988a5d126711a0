#include "base/crc32c.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace tutti {
namespace {

// Polynomials over bits are written reflected: the highest bit of a word is the coefficient of x^0.
constexpr std::uint32_t kPolynomial = 0x82f63b78;

constexpr std::uint32_t times_x(std::uint32_t value) { return value >> 1 ^ ((value & 1) != 0 ? kPolynomial : 0); }

/// Returns x^n modulo the polynomial.
constexpr std::uint32_t power_of_x(unsigned n) {
  std::uint32_t value = 1u << 31;
  while (n-- > 0) value = times_x(value);
  return value;
}

// kTables[0][b]: what the byte b does to a checksum; kTables[k][b]: the same with k bytes of zero behind it.
using Table = std::array<std::uint32_t, 256>;

constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    tables[0][byte] = byte;
    for (int bit = 0; bit < 8; ++bit) tables[0][byte] = times_x(tables[0][byte]);
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

// What kStream bytes of zero do to a checksum, by its four bytes: puts the checksums of streams together.
constexpr std::size_t kStream = 1024;

constexpr std::array<Table, 4> make_shift() {
  std::array<std::uint32_t, 32> bits{};
  for (unsigned bit = 0; bit < 32; ++bit) {
    bits[bit] = 1u << bit;
    for (std::size_t i = 0; i < kStream; ++i) bits[bit] = bits[bit] >> 8 ^ kTables[0][bits[bit] & 0xff];
  }
  std::array<Table, 4> shift{};
  for (unsigned at = 0; at < 4; ++at)
    for (unsigned byte = 0; byte < 256; ++byte)
      for (unsigned bit = 0; bit < 8; ++bit)
        if ((byte >> bit & 1) != 0) shift[at][byte] ^= bits[8 * at + bit];
  return shift;
}

constexpr std::array<Table, 4> kShift = make_shift();

std::uint64_t shifted(std::uint64_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][crc >> 8 & 0xff] ^ kShift[2][crc >> 16 & 0xff] ^ kShift[3][crc >> 24];
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// These take and return the inverted checksum, as the instruction does.

std::uint32_t by_table(const std::byte* data, std::size_t bytes, std::uint32_t crc) {
  for (; bytes >= 8; bytes -= 8, data += 8) {
    const std::uint64_t word = load<std::uint64_t>(data) ^ crc;
    crc = 0;
    for (unsigned k = 0; k < 8; ++k) crc ^= kTables[7 - k][word >> 8 * k & 0xff];
  }
  for (; bytes != 0; --bytes, ++data) crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<std::uint8_t>(*data)) & 0xff];
  return crc;
}

// The instruction takes three cycles, and a new one may begin in each: three streams keep it busy.
[[gnu::target("sse4.2")]] std::uint32_t by_sse42(const std::byte* data, std::size_t bytes, std::uint32_t start) {
  std::uint64_t crc = start;
  for (; bytes >= 3 * kStream; bytes -= 3 * kStream, data += 3 * kStream) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t at = 0; at < kStream; at += 8) {
      crc = _mm_crc32_u64(crc, load<std::uint64_t>(data + at));
      second = _mm_crc32_u64(second, load<std::uint64_t>(data + kStream + at));
      third = _mm_crc32_u64(third, load<std::uint64_t>(data + 2 * kStream + at));
    }
    crc = shifted(shifted(crc) ^ second) ^ third;
  }
  for (; bytes >= 8; bytes -= 8, data += 8) crc = _mm_crc32_u64(crc, load<std::uint64_t>(data));
  for (; bytes != 0; --bytes, ++data)
    crc = _mm_crc32_u8(static_cast<std::uint32_t>(crc), static_cast<std::uint8_t>(*data));
  return static_cast<std::uint32_t>(crc);
}

// Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ": 128 bits that stand D bits before
// others have the same remainder as their halves times x^(D+31) and x^(D-33), which is added to those. Four vectors of
// 512 bits are in flight; what is left of them is a message of 256 bytes with the checksum of all that went in.
constexpr std::size_t kFold = 256;

[[gnu::target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")]] std::uint32_t by_avx512(const std::byte* data,
                                                                                     std::size_t bytes,
                                                                                     std::uint32_t crc) {
  if (bytes < 2 * kFold) return by_sse42(data, bytes, crc);
  constexpr unsigned kDistance = 8 * kFold;
  constexpr std::int64_t kLow = power_of_x(kDistance + 31);
  constexpr std::int64_t kHigh = power_of_x(kDistance - 33);
  const __m512i factors = _mm512_set4_epi64(kHigh, kLow, kHigh, kLow);
  __m512i parts[4];
  for (int i = 0; i < 4; ++i) parts[i] = _mm512_loadu_si512(data + 64 * i);
  parts[0] = _mm512_xor_si512(parts[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (bytes -= kFold, data += kFold; bytes >= kFold; bytes -= kFold, data += kFold)
    for (int i = 0; i < 4; ++i) {
      const __m512i low = _mm512_clmulepi64_epi128(parts[i], factors, 0x00);
      const __m512i high = _mm512_clmulepi64_epi128(parts[i], factors, 0x11);
      constexpr int kXor = 0x96;
      parts[i] = _mm512_ternarylogic_epi64(low, high, _mm512_loadu_si512(data + 64 * i), kXor);
    }
  alignas(64) std::byte folded[kFold];
  for (int i = 0; i < 4; ++i) _mm512_store_si512(folded + 64 * i, parts[i]);
  return by_sse42(data, bytes, by_sse42(folded, kFold, 0));
}

Crc32cWay detect_crc32c() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2")) return Crc32cWay::table;
  const bool folds = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul");
  return folds ? Crc32cWay::avx512 : Crc32cWay::sse42;
}

}  // namespace

Crc32cWay best_crc32c() {
  static const Crc32cWay best = detect_crc32c();
  return best;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  return crc32c(bytes, before, best_crc32c());
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before, Crc32cWay way) {
  switch (std::min(way, best_crc32c())) {
    case Crc32cWay::avx512:
      return ~by_avx512(bytes.data(), bytes.size(), ~before);
    case Crc32cWay::sse42:
      return ~by_sse42(bytes.data(), bytes.size(), ~before);
    case Crc32cWay::table:
      break;
  }
  return ~by_table(bytes.data(), bytes.size(), ~before);
}

}  // namespace tutti
