#include "bootstrap/wire.hpp"

#include <cstring>

namespace tutti {
namespace {

constexpr std::uint8_t kRequest = 1;
constexpr std::uint8_t kGathered = 2;
constexpr std::uint8_t kFailure = 3;
constexpr std::uint8_t kSize = 4;
constexpr std::uint32_t kMaxSettings = 256;

/// A writer whose first bytes are to hold the frame's length.
WireWriter frame_writer(std::uint8_t kind) {
  WireWriter writer;
  writer.put(std::uint32_t{0});
  writer.put(kind);
  return writer;
}

Blob frame_of(WireWriter& writer) {
  Blob frame = writer.take();
  const auto length = static_cast<std::uint32_t>(frame.size() - kLengthBytes);
  std::memcpy(frame.data(), &length, sizeof length);
  return frame;
}

Error damaged_answer() { return fail(ErrorCode::refused, "the store's answer is damaged").value(); }

/// The rest of a failure, which is an error in any case.
Error read_failure(WireReader& reader) {
  Error error;
  const auto code = reader.get<std::uint8_t>();
  error.peer = reader.get<std::int32_t>();
  error.message = reader.get_text();
  if (!reader.complete() || code > static_cast<std::uint8_t>(ErrorCode::internal)) return damaged_answer();
  error.code = static_cast<ErrorCode>(code);
  return error;
}

bool is_duration(double seconds) { return seconds >= 0 && seconds < 1e9; }

}  // namespace

Blob encode_request(const JoinRequest& request) {
  WireWriter writer = frame_writer(kRequest);
  writer.put(static_cast<std::int32_t>(request.rank));
  writer.put(static_cast<std::int32_t>(request.size));
  writer.put(static_cast<std::int32_t>(request.newcomers));
  writer.put(static_cast<std::int32_t>(request.at_least));
  writer.put(request.patience);
  writer.put(request.patience_was);
  writer.put(static_cast<std::uint32_t>(request.settings.size()));
  for (const auto& [key, value] : request.settings) {
    writer.put_text(key);
    writer.put_text(value);
  }
  writer.put_bytes(request.blob);
  return frame_of(writer);
}

Blob encode_gathered(const Gathered& gathered) {
  WireWriter writer = frame_writer(kGathered);
  writer.put(static_cast<std::int32_t>(gathered.rank));
  writer.put(static_cast<std::uint32_t>(gathered.blobs.size()));
  for (const Blob& blob : gathered.blobs) writer.put_bytes(blob);
  return frame_of(writer);
}

Blob encode_size(int ranks) {
  WireWriter writer = frame_writer(kSize);
  writer.put(static_cast<std::int32_t>(ranks));
  return frame_of(writer);
}

Blob encode_failure(const Error& error) {
  WireWriter writer = frame_writer(kFailure);
  writer.put(static_cast<std::uint8_t>(error.code));
  writer.put(static_cast<std::int32_t>(error.peer));
  writer.put_text(error.message);
  return frame_of(writer);
}

std::uint32_t frame_length(std::span<const std::byte, kLengthBytes> header) {
  std::uint32_t length = 0;
  std::memcpy(&length, header.data(), sizeof length);
  return length;
}

Result<JoinRequest> decode_request(std::span<const std::byte> bytes) {
  const auto damaged = [] { return fail(ErrorCode::refused, "the request to join is damaged"); };
  WireReader reader(bytes);
  if (reader.get<std::uint8_t>() != kRequest) return damaged();
  JoinRequest request;
  request.rank = reader.get<std::int32_t>();
  request.size = reader.get<std::int32_t>();
  request.newcomers = reader.get<std::int32_t>();
  request.at_least = reader.get<std::int32_t>();
  request.patience = reader.get<double>();
  request.patience_was = reader.get<double>();
  const auto settings = reader.get<std::uint32_t>();
  if (settings > kMaxSettings) return damaged();
  for (std::uint32_t i = 0; i < settings && reader.ok(); ++i) {
    std::string key = reader.get_text();
    request.settings.emplace_back(std::move(key), reader.get_text());
  }
  request.blob = reader.get_bytes();
  if (!reader.complete() || !is_duration(request.patience) || !is_duration(request.patience_was)) return damaged();
  if (request.blob.size() > kMaxBlobBytes) return damaged();
  return request;
}

Result<Gathered> decode_answer(std::span<const std::byte> bytes) {
  WireReader reader(bytes);
  const auto kind = reader.get<std::uint8_t>();
  if (kind == kFailure) return tl::unexpected(read_failure(reader));
  if (kind != kGathered) return tl::unexpected(damaged_answer());
  Gathered gathered;
  gathered.rank = reader.get<std::int32_t>();
  const auto count = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) gathered.blobs.push_back(reader.get_bytes());
  if (!reader.complete()) return tl::unexpected(damaged_answer());
  return gathered;
}

Result<int> decode_size(std::span<const std::byte> bytes) {
  WireReader reader(bytes);
  const auto kind = reader.get<std::uint8_t>();
  if (kind == kFailure) return tl::unexpected(read_failure(reader));
  const auto ranks = reader.get<std::int32_t>();
  if (kind != kSize || !reader.complete() || ranks < 1 || ranks > kMaxRanks) return tl::unexpected(damaged_answer());
  return ranks;
}

}  // namespace tutti
