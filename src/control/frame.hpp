// Frames of the control plane as bytes: a length, a kind and a payload. The payload of a frame that must neither be
// lost nor come twice begins with its number; see session.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

enum class ControlFrame : std::uint8_t {
  greeting = 1,  // who speaks, and to whom
  message,       // topic and bytes, for the receiver
  broadcast,     // origin, number, topic and bytes, for everyone
  death,         // a process, an error code and a sentence
  left,          // a process that said goodbye
  heartbeat,     // the number of the last frame that came
};

constexpr bool is_numbered(ControlFrame kind) { return kind >= ControlFrame::message && kind <= ControlFrame::left; }

inline constexpr std::size_t kMessageLimit = 1u << 20;
inline constexpr std::size_t kFrameLimit = kMessageLimit + 64;  // of a payload
inline constexpr std::size_t kFrameHeader = 5;                  // bytes: length of the payload, kind

/// The bytes of a frame, ready to be queued. A numbered kind gets the number 0, which belongs to no session.
std::vector<std::byte> encode_frame(ControlFrame kind, std::span<const std::byte> payload);

/// Of a frame of a numbered kind.
void set_number(std::span<std::byte> frame, std::uint64_t number);

}  // namespace tutti
