#include "bootstrap/wire.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace tutti {
namespace {

constexpr std::uint8_t kRequest = 1;
constexpr std::uint8_t kGathered = 2;
constexpr std::uint8_t kFailure = 3;
constexpr std::uint32_t kMaxSettings = 256;

class Writer {
 public:
  Writer() : bytes_(kLengthBytes) {}

  template <typename Number>
  void number(Number value) {
    append(&value, sizeof value);
  }
  void bytes(std::span<const std::byte> value) {
    number(static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
  }
  void text(std::string_view value) { bytes(std::as_bytes(std::span(value))); }
  Blob frame() && {
    const auto length = static_cast<std::uint32_t>(bytes_.size() - kLengthBytes);
    std::memcpy(bytes_.data(), &length, sizeof length);
    return std::move(bytes_);
  }

 private:
  void append(const void* data, std::size_t count) {
    const std::size_t before = bytes_.size();
    bytes_.resize(before + count);
    if (count != 0) std::memcpy(bytes_.data() + before, data, count);
  }

  Blob bytes_;
};

// Reads zeros once anything did not fit; ok() tells at the end.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename Number>
  Number number() {
    Number value{};
    const auto raw = take(sizeof value);
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  Blob bytes() {
    const auto raw = take(number<std::uint32_t>());
    return Blob(raw.begin(), raw.end());
  }
  std::string text() {
    const auto raw = take(number<std::uint32_t>());
    return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (!ok_ || count > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

bool is_duration(double seconds) { return seconds >= 0 && seconds < 1e9; }

}  // namespace

Blob encode_request(const JoinRequest& request) {
  Writer writer;
  writer.number(kRequest);
  writer.number(static_cast<std::int32_t>(request.rank));
  writer.number(static_cast<std::int32_t>(request.size));
  writer.number(request.patience);
  writer.number(request.patience_was);
  writer.number(static_cast<std::uint32_t>(request.settings.size()));
  for (const auto& [key, value] : request.settings) {
    writer.text(key);
    writer.text(value);
  }
  writer.bytes(request.blob);
  return std::move(writer).frame();
}

Blob encode_gathered(const std::vector<Blob>& blobs) {
  Writer writer;
  writer.number(kGathered);
  writer.number(static_cast<std::uint32_t>(blobs.size()));
  for (const Blob& blob : blobs) writer.bytes(blob);
  return std::move(writer).frame();
}

Blob encode_failure(const Error& error) {
  Writer writer;
  writer.number(kFailure);
  writer.number(static_cast<std::uint8_t>(error.code));
  writer.number(static_cast<std::int32_t>(error.peer));
  writer.text(error.message);
  return std::move(writer).frame();
}

std::uint32_t frame_length(std::span<const std::byte, kLengthBytes> header) {
  std::uint32_t length = 0;
  std::memcpy(&length, header.data(), sizeof length);
  return length;
}

Result<JoinRequest> decode_request(std::span<const std::byte> bytes) {
  const auto damaged = [] { return fail(ErrorCode::refused, "the request to join is damaged"); };
  Reader reader(bytes);
  if (reader.number<std::uint8_t>() != kRequest) return damaged();
  JoinRequest request;
  request.rank = reader.number<std::int32_t>();
  request.size = reader.number<std::int32_t>();
  request.patience = reader.number<double>();
  request.patience_was = reader.number<double>();
  const auto settings = reader.number<std::uint32_t>();
  if (settings > kMaxSettings) return damaged();
  for (std::uint32_t i = 0; i < settings && reader.ok(); ++i) {
    std::string key = reader.text();
    request.settings.emplace_back(std::move(key), reader.text());
  }
  request.blob = reader.bytes();
  if (!reader.at_end() || !is_duration(request.patience) || !is_duration(request.patience_was)) return damaged();
  if (request.blob.size() > kMaxBlobBytes) return damaged();
  return request;
}

Result<std::vector<Blob>> decode_answer(std::span<const std::byte> bytes, int size) {
  const auto damaged = [] { return fail(ErrorCode::refused, "the store's answer is damaged"); };
  Reader reader(bytes);
  const auto kind = reader.number<std::uint8_t>();
  if (kind == kFailure) {
    Error error;
    const auto code = reader.number<std::uint8_t>();
    error.peer = reader.number<std::int32_t>();
    error.message = reader.text();
    if (!reader.at_end() || code > static_cast<std::uint8_t>(ErrorCode::internal)) return damaged();
    error.code = static_cast<ErrorCode>(code);
    return tl::unexpected(error);
  }
  if (kind != kGathered || reader.number<std::uint32_t>() != static_cast<std::uint32_t>(size)) return damaged();
  std::vector<Blob> blobs;
  for (int rank = 0; rank < size && reader.ok(); ++rank) blobs.push_back(reader.bytes());
  if (!reader.at_end()) return damaged();
  return blobs;
}

}  // namespace tutti
