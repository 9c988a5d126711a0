#include "transport/frame.hpp"

#include <fmt/core.h>
#include <sys/random.h>

#include <bit>
#include <chrono>
#include <concepts>
#include <cstring>

#include "base/crc32c.hpp"

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are written as they lie in memory");

constexpr std::uint16_t kMagic = 0x5454;
constexpr std::uint8_t kFormat = 3;
constexpr std::uint32_t kWantsAck = 1;
constexpr std::uint32_t kIsChecked = 2;
constexpr std::uint32_t kIsCorrupted = 4;

// Offsets of the fields. Those that share one belong to different types of frame.
constexpr std::size_t kAtMagic = 0;
constexpr std::size_t kAtFormat = 2;
constexpr std::size_t kAtType = 3;
constexpr std::size_t kAtEpoch = 4;
constexpr std::size_t kAtBytes = 8;
constexpr std::size_t kAtChannel = 12;
constexpr std::size_t kAtCommunicator = 16;
constexpr std::size_t kAtSource = 24;
constexpr std::size_t kAtTarget = 28;
constexpr std::size_t kAtSequence = 32;
constexpr std::size_t kAtNumber = 40;
constexpr std::size_t kAtSignature = 44;
constexpr std::size_t kAtArrived = 40;
constexpr std::size_t kAtCredit = 48;
constexpr std::size_t kAtFlags = 56;
constexpr std::size_t kAtStamp = 56;
constexpr std::size_t kAtHeaderChecksum = 60;
constexpr std::size_t kAtChecksum = 48;
constexpr std::size_t kAtCorruptedLane = 48;
constexpr std::size_t kAtCorruptedEpoch = 52;
constexpr std::size_t kAtLostLane = 32;
constexpr std::size_t kAtLostEpoch = 36;
constexpr std::size_t kAtLane = 8;
constexpr std::size_t kAtFrom = 16;
constexpr std::size_t kAtTo = 32;

template <std::unsigned_integral T>
void put(FrameBytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

template <std::unsigned_integral T>
T get(std::span<const std::byte, kFrameHeaderBytes> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void put_process(FrameBytes& bytes, std::size_t offset, const ProcessId& id) {
  put(bytes, offset, id.high);
  put(bytes, offset + 8, id.low);
}

ProcessId get_process(std::span<const std::byte, kFrameHeaderBytes> bytes, std::size_t offset) {
  return {get<std::uint64_t>(bytes, offset), get<std::uint64_t>(bytes, offset + 8)};
}

FrameBytes begin(FrameType type, std::uint32_t epoch) {
  FrameBytes bytes{};
  put(bytes, kAtMagic, kMagic);
  put(bytes, kAtFormat, kFormat);
  put(bytes, kAtType, static_cast<std::uint8_t>(type));
  put(bytes, kAtEpoch, epoch);
  return bytes;
}

std::uint32_t checksum_of(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  return crc32c(bytes.first<kAtHeaderChecksum>());
}

Result<FrameType> type_of(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  if (get<std::uint32_t>(bytes, kAtHeaderChecksum) != checksum_of(bytes))
    return fail(ErrorCode::corrupted, "the header of a frame came corrupted");
  if (get<std::uint16_t>(bytes, kAtMagic) != kMagic) return fail(ErrorCode::refused, "the bytes are no frame");
  if (const auto format = get<std::uint8_t>(bytes, kAtFormat); format != kFormat)
    return fail(ErrorCode::refused, fmt::format("frame format {}, not {}", format, kFormat));
  const auto type = get<std::uint8_t>(bytes, kAtType);
  if (type < static_cast<std::uint8_t>(FrameType::hello) || type > static_cast<std::uint8_t>(FrameType::again))
    return fail(ErrorCode::refused, fmt::format("unknown frame type {}", type));
  return static_cast<FrameType>(type);
}

bool greets(FrameType type) {
  return type == FrameType::hello || type == FrameType::welcome || type == FrameType::never;
}

bool names_link(FrameType type) {
  return type == FrameType::open || type == FrameType::data || type == FrameType::ack || type == FrameType::close ||
         type == FrameType::again;
}

bool names_lane(FrameType type) {
  return type == FrameType::fence || type == FrameType::fenced || type == FrameType::tried;
}

bool has_stamp(FrameType type) { return type == FrameType::ack || type == FrameType::tried; }

bool has_payload(FrameType type) { return type == FrameType::data || type == FrameType::trial; }

}  // namespace

std::string LinkId::to_string() const {
  return fmt::format("link {}->{} channel {} of communicator {:x}", source, target, channel, communicator);
}

void seal(FrameBytes& bytes) { put(bytes, kAtHeaderChecksum, checksum_of(bytes)); }

FrameBytes encode(const FrameHeader& header) {
  FrameBytes bytes = begin(header.type, header.epoch);
  if (names_link(header.type)) {
    put(bytes, kAtChannel, header.link.channel);
    put(bytes, kAtCommunicator, header.link.communicator);
    put(bytes, kAtSource, header.link.source);
    put(bytes, kAtTarget, header.link.target);
    put(bytes, kAtSequence, header.sequence);
  }
  if (has_payload(header.type)) put(bytes, kAtBytes, header.bytes);
  if (has_stamp(header.type)) put(bytes, kAtStamp, header.stamp);
  if (header.type == FrameType::data) {
    put(bytes, kAtNumber, header.tag.number);
    put(bytes, kAtSignature, header.tag.signature);
    put(bytes, kAtChecksum, header.checksum);
    put(bytes, kAtFlags, (header.wants_ack ? kWantsAck : 0u) | (header.is_checked ? kIsChecked : 0u));
  }
  if (header.type == FrameType::ack) {
    put(bytes, kAtArrived, header.arrived);
    put(bytes, kAtCredit, header.credit);
  }
  if (names_lane(header.type)) {
    put(bytes, kAtLostLane, header.lane);
    put(bytes, kAtLostEpoch, header.lane_epoch);
  }
  if (header.type == FrameType::fence) put(bytes, kAtFlags, header.is_corrupted ? kIsCorrupted : 0u);
  if (header.type == FrameType::again) {
    put(bytes, kAtArrived, header.arrived);
    put(bytes, kAtCorruptedLane, header.lane);
    put(bytes, kAtCorruptedEpoch, header.lane_epoch);
  }
  seal(bytes);
  return bytes;
}

FrameBytes encode(const LaneGreeting& greeting) {
  FrameBytes bytes = begin(greeting.type, greeting.epoch);
  put(bytes, kAtLane, greeting.lane);
  put_process(bytes, kAtFrom, greeting.from);
  put_process(bytes, kAtTo, greeting.to);
  seal(bytes);
  return bytes;
}

Result<FrameHeader> parse_frame(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const auto type = type_of(bytes);
  if (!type) return tl::unexpected(type.error());
  if (greets(*type)) return fail(ErrorCode::refused, "a greeting on a lane already in use");
  FrameHeader header;
  header.type = *type;
  header.epoch = get<std::uint32_t>(bytes, kAtEpoch);
  if (names_link(*type)) {
    header.link.channel = get<std::uint32_t>(bytes, kAtChannel);
    header.link.communicator = get<std::uint64_t>(bytes, kAtCommunicator);
    header.link.source = get<std::uint32_t>(bytes, kAtSource);
    header.link.target = get<std::uint32_t>(bytes, kAtTarget);
    header.sequence = get<std::uint64_t>(bytes, kAtSequence);
  }
  header.bytes = get<std::uint32_t>(bytes, kAtBytes);
  if (header.bytes != 0 && !has_payload(*type)) return fail(ErrorCode::refused, "a payload in a frame that has none");
  if (header.bytes > kPayloadLimit)
    return fail(ErrorCode::refused, fmt::format("a payload of {} bytes, above {}", header.bytes, kPayloadLimit));
  if (*type == FrameType::data) {
    header.tag.number = get<std::uint32_t>(bytes, kAtNumber);
    header.tag.signature = get<std::uint32_t>(bytes, kAtSignature);
    header.checksum = get<std::uint32_t>(bytes, kAtChecksum);
    header.wants_ack = (get<std::uint32_t>(bytes, kAtFlags) & kWantsAck) != 0;
    header.is_checked = (get<std::uint32_t>(bytes, kAtFlags) & kIsChecked) != 0;
  }
  if (has_stamp(*type)) header.stamp = get<std::uint32_t>(bytes, kAtStamp);
  if (*type == FrameType::ack) {
    header.arrived = get<std::uint64_t>(bytes, kAtArrived);
    header.credit = get<std::uint64_t>(bytes, kAtCredit);
  }
  if (names_lane(*type)) {
    header.lane = get<std::uint32_t>(bytes, kAtLostLane);
    header.lane_epoch = get<std::uint32_t>(bytes, kAtLostEpoch);
  }
  if (*type == FrameType::fence) header.is_corrupted = (get<std::uint32_t>(bytes, kAtFlags) & kIsCorrupted) != 0;
  if (*type == FrameType::again) {
    header.arrived = get<std::uint64_t>(bytes, kAtArrived);
    header.lane = get<std::uint32_t>(bytes, kAtCorruptedLane);
    header.lane_epoch = get<std::uint32_t>(bytes, kAtCorruptedEpoch);
  }
  if (header.lane >= kLaneLimit) return fail(ErrorCode::refused, fmt::format("lane {} of {}", header.lane, kLaneLimit));
  return header;
}

Result<LaneGreeting> parse_greeting(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const auto type = type_of(bytes);
  if (!type) return tl::unexpected(type.error());
  if (!greets(*type)) return fail(ErrorCode::refused, "no greeting");
  LaneGreeting greeting;
  greeting.type = *type;
  greeting.epoch = get<std::uint32_t>(bytes, kAtEpoch);
  greeting.lane = get<std::uint32_t>(bytes, kAtLane);
  greeting.from = get_process(bytes, kAtFrom);
  greeting.to = get_process(bytes, kAtTo);
  if (greeting.lane >= kLaneLimit)
    return fail(ErrorCode::refused, fmt::format("lane {} of {}", greeting.lane, kLaneLimit));
  return greeting;
}

}  // namespace tutti
