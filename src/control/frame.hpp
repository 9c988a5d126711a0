// Frames of the control plane as bytes: a length, a kind and a payload. The payload of a frame that must neither be
// lost nor come twice begins with its number; see world/session.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

enum class ControlFrame : std::uint8_t {
  message = 1,  // topic and bytes, for the receiver
  broadcast,    // origin, number, topic, who is to have it, and bytes, for everyone to pass on
  death,        // a process, an error code and a sentence
  left,         // a process that said goodbye
  opinion,      // origin, number, a process and whether the origin hears it or asks who does, for everyone
  heartbeat,    // the number of the last frame that came
};

constexpr bool is_numbered(ControlFrame kind) { return kind >= ControlFrame::message && kind <= ControlFrame::opinion; }

// An agreement of 100,000 ranks fits.
inline constexpr std::size_t kMessageLimit = 8u << 20;
inline constexpr std::size_t kFrameLimit = kMessageLimit + (1u << 20);  // of a payload, with a set of processes
inline constexpr std::size_t kFrameHeader = 5;                          // bytes: length of the payload, kind

/// The bytes of a frame, ready to be queued. A numbered kind gets the number 0, which belongs to no session.
std::vector<std::byte> encode_frame(ControlFrame kind, std::span<const std::byte> payload);

/// Of a frame of a numbered kind.
void set_number(std::span<std::byte> frame, std::uint64_t number);

}  // namespace tutti
