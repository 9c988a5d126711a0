// What a joining rank and the store say to each other, after the handshake. Pure functions of bytes: a decoder accepts
// exactly what its encoder makes and turns everything else away without reading past the end.
//
// A frame is a 32-bit little-endian length and that many bytes. The rank sends one request; the store answers with one
// frame: the blobs of all ranks, or an error. A newcomer, to ranks that admit some, first asks how many ranks there
// will be; once it knows it sends its request, and is told its number with the blobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/wire.hpp"
#include "tutti/error.hpp"

namespace tutti {

using AgreedSettings = std::vector<std::pair<std::string, std::string>>;

inline constexpr std::size_t kMaxBlobBytes = 64 << 10;
inline constexpr std::size_t kMaxRequestBytes = kMaxBlobBytes + (32 << 10);
inline constexpr int kMaxRanks = 1 << 20;
inline constexpr std::size_t kLengthBytes = 4;
inline constexpr int kNewcomer = -1;  // the rank of one that is to be given a number; it asks with size 0

struct JoinRequest {
  int rank = 0;
  int size = 0;
  int newcomers = 0;        // so many of `size`, the last, are given their numbers as they come
  int at_least = 0;         // newcomers that suffice when time is up
  double patience = 0;      // seconds this rank still waits for the others
  double patience_was = 0;  // seconds it was given at first, for messages
  AgreedSettings settings;  // must be the same on all ranks
  Blob blob;

  bool operator==(const JoinRequest&) const = default;
};

/// Whole frames, header included.
Blob encode_request(const JoinRequest& request);
struct Gathered {
  int rank = kNewcomer;  // the number a newcomer was given
  std::vector<Blob> blobs;

  bool operator==(const Gathered&) const = default;
};
Blob encode_gathered(const Gathered& gathered);
Blob encode_size(int ranks);
Blob encode_failure(const Error& error);

std::uint32_t frame_length(std::span<const std::byte, kLengthBytes> header);

/// Of a frame's bytes without the header.
Result<JoinRequest> decode_request(std::span<const std::byte> bytes);
/// What was gathered, or the error the store answered with.
Result<Gathered> decode_answer(std::span<const std::byte> bytes);
/// How many ranks there will be at most, or the error.
Result<int> decode_size(std::span<const std::byte> bytes);

}  // namespace tutti
