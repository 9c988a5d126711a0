// What lanes carry between two processes: frames, each a header of 64 bytes (little-endian) and, for some, a payload.
// Parsing is a pure function of 64 bytes: whatever they are, it returns a header that keeps every limit stated here, or
// an error. Whether a frame fits what the receiver expects is decided by link_state.hpp, before memory is touched.
//
// The last four bytes of a header are the CRC32C of the others. A header that is not as it was written is an error of
// its own, `corrupted`: where the next one begins is not known any more. Payloads of data frames carry their CRC32C in
// the header if the sender chose so (checksums.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/process_id.hpp"
#include "transport/link.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Names a link between two processes, the same at both ends.
struct LinkId {
  std::uint64_t communicator = 0;
  std::uint32_t source = 0;  // ranks
  std::uint32_t target = 0;
  std::uint32_t channel = 0;

  std::string to_string() const;
  bool operator==(const LinkId&) const = default;
};

enum class FrameType : std::uint8_t {
  hello = 1,    // first on a lane, from the process that dialed
  welcome = 2,  // its answer: the lane is taken into use
  open = 3,     // the sender has this link open; the receiver grants it credit when it has, too
  data = 4,     // a chunk
  ack = 5,      // what has come, and how far the sender may go
  close = 6,    // the end that says so has closed this link
  fence = 7,    // the sender lost the lane named here: take nothing more from it, nor from those before it
  fenced = 8,   // done, and what had come on it is acknowledged
  bye = 9,      // nothing follows: the end of this connection is no failure
  probe = 10,   // says nothing; that it comes through is what matters
  never = 11,   // instead of a welcome: the process that dialed counts as gone here
  gone = 12,    // the same, on a lane in use
  trial = 13,   // bytes that mean nothing, to see how fast they come through
  tried = 14,   // a trial has come on the lane named here
  again = 15,   // a chunk came corrupted on the lane named here: send it once more
};

inline constexpr std::size_t kFrameHeaderBytes = 64;
inline constexpr std::size_t kPayloadLimit = 1u << 20;

using FrameBytes = std::array<std::byte, kFrameHeaderBytes>;

struct FrameHeader {
  FrameType type = FrameType::data;
  std::uint32_t epoch = 0;     // incarnation of the lane that carries the frame
  LinkId link;                 // open, data, ack, close, again
  std::uint32_t bytes = 0;     // data, trial: of the payload
  bool wants_ack = false;      // data: the sender holds the memory of this chunk until it is acknowledged
  bool is_checked = false;     // data: the checksum counts
  std::uint32_t checksum = 0;  // data: of the payload
  OperationTag tag;            // data
  std::uint64_t sequence = 0;  // data, again: the chunk's number; ack: every chunk below it has come
  std::uint64_t arrived = 0;   // ack: bit i says that chunk sequence + 1 + i has come; again: times it came corrupted
  std::uint64_t credit = 0;    // ack: see link_state.hpp
  std::uint32_t stamp = 0;     // ack, tried: when this was told, see lane_shares.hpp; 0: nobody looked
  std::uint32_t lane = 0;      // fence, fenced: the lane that is lost; tried: the one that was tried; again
  std::uint32_t lane_epoch = 0;
  bool is_corrupted = false;  // fence: the lane was given up because what came on it was corrupted

  bool operator==(const FrameHeader&) const = default;
};

/// hello, welcome and never: who speaks, to whom, on which lane.
struct LaneGreeting {
  FrameType type = FrameType::hello;
  std::uint32_t epoch = 0;
  std::uint32_t lane = 0;
  ProcessId from;
  ProcessId to;

  bool operator==(const LaneGreeting&) const = default;
};

inline constexpr std::uint32_t kLaneLimit = 64;

FrameBytes encode(const FrameHeader& header);
FrameBytes encode(const LaneGreeting& greeting);
/// Sets the checksum of a header that was written by hand. encode() has done it.
void seal(FrameBytes& bytes);
/// Any frame but greetings.
Result<FrameHeader> parse_frame(std::span<const std::byte, kFrameHeaderBytes> bytes);
Result<LaneGreeting> parse_greeting(std::span<const std::byte, kFrameHeaderBytes> bytes);

}  // namespace tutti

template <>
struct std::hash<tutti::LinkId> {
  std::size_t operator()(const tutti::LinkId& id) const noexcept {
    const std::uint64_t ranks = (std::uint64_t{id.source} << 32) | id.target;
    std::uint64_t mixed = id.communicator * 0x9e3779b97f4a7c15u ^ ranks * 0xc2b2ae3d27d4eb4fu ^ id.channel;
    mixed ^= mixed >> 29;
    return static_cast<std::size_t>(mixed * 0x165667b19e3779f9u);
  }
};
