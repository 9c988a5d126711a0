#include "base/crc32c.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string_view>
#include <vector>

namespace tutti {
namespace {

constexpr Crc32cWay kWays[] = {Crc32cWay::table, Crc32cWay::sse42, Crc32cWay::avx512};

std::uint32_t crc_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

/// Bit by bit, as the polynomial is defined.
std::uint32_t by_definition(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0u;
  for (const std::byte each : bytes) {
    crc ^= static_cast<std::uint8_t>(each);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc32c, IsWhatOthersPublished) {
  EXPECT_EQ(crc_of(""), 0u);
  EXPECT_EQ(crc_of("a"), 0xc1d04330u);
  EXPECT_EQ(crc_of("123456789"), 0xe3069283u);
  EXPECT_EQ(crc_of("The quick brown fox jumps over the lazy dog"), 0x22620404u);
  // RFC 3720, appendix B.4.
  std::vector<std::byte> bytes(32);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aau);
  std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43u);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(bytes), 0x46dd794eu);
}

TEST(Crc32c, AllWaysAgreeAtEveryLengthAndAlignment) {
  if (best_crc32c() != Crc32cWay::avx512) fmt::print("this CPU has no VPCLMULQDQ: that way is not tested\n");
  const std::vector<std::byte> bytes = random_bytes(3 * 4096 + 64, 1);
  const auto expect_equal = [&](std::size_t offset, std::size_t length) {
    const auto part = std::span(bytes).subspan(offset, length);
    const std::uint32_t expected = by_definition(part);
    for (const Crc32cWay way : kWays)
      ASSERT_EQ(crc32c(part, 0, way), expected) << static_cast<int>(way) << " " << offset << "+" << length;
  };
  for (std::size_t length = 0; length <= 4096; ++length) expect_equal(length * 7 % 64, length);
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) expect_equal(random() % 64, random() % (3 * 4096));
}

TEST(Crc32c, GoesOnWhereItStopped) {
  const std::vector<std::byte> bytes = random_bytes(8192, 3);
  const std::uint32_t whole = crc32c(bytes);
  std::mt19937_64 random(4);
  for (const Crc32cWay way : kWays)
    for (int i = 0; i < 100; ++i) {
      const std::size_t cut = random() % (bytes.size() + 1);
      const std::uint32_t first = crc32c(std::span(bytes).first(cut), 0, way);
      ASSERT_EQ(crc32c(std::span(bytes).subspan(cut), first, way), whole) << static_cast<int>(way) << " " << cut;
    }
}

TEST(Crc32c, FindsEveryBitThatIsFlipped) {
  std::vector<std::byte> bytes = random_bytes(4096, 5);
  const std::uint32_t right = crc32c(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_NE(crc32c(bytes), right) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace
}  // namespace tutti
