// Which chunks carry a checksum of their bytes, so that the receiver can tell whether they came as they were sent. The
// headers of frames always carry one of their own (frame.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti {

/// What TUTTI_CHECKSUM says.
enum class Checksums : std::uint8_t {
  off,
  sampled,  // one in 64, and what is sent again
  all,
};

inline std::optional<Checksums> parse_checksums(std::string_view text) {
  if (text == "off") return Checksums::off;
  if (text == "sampled") return Checksums::sampled;
  if (text == "all") return Checksums::all;
  return std::nullopt;
}

/// Returns whether a chunk is one of those that are sampled. Multiples of the golden ratio lie evenly in every
/// arithmetic progression: whatever the number of chunks after which a job repeats itself, each of its chunks has its
/// turn. `seed`: links are not sampled in step.
inline bool is_sampled(std::uint64_t seed, std::uint64_t sequence) {
  constexpr int kSampleBits = 6;
  return (seed + sequence) * 0x9e3779b97f4a7c15u >> (64 - kSampleBits) == 0;
}

}  // namespace tutti
