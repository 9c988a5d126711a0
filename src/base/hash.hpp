// Hashes that are the same in all processes. Not for what an adversary may choose.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 31);
}

constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

}  // namespace tutti
