#include "bootstrap/wire.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace tutti {
namespace {

constexpr std::uint8_t kRequest = 1;
constexpr std::uint8_t kGathered = 2;
constexpr std::uint8_t kFailure = 3;
constexpr std::uint8_t kSize = 4;
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

Error damaged_answer() { return fail(ErrorCode::refused, "the store's answer is damaged").value(); }

/// The rest of a failure, which is an error in any case.
Error read_failure(Reader& reader) {
  Error error;
  const auto code = reader.number<std::uint8_t>();
  error.peer = reader.number<std::int32_t>();
  error.message = reader.text();
  if (!reader.at_end() || code > static_cast<std::uint8_t>(ErrorCode::internal)) return damaged_answer();
  error.code = static_cast<ErrorCode>(code);
  return error;
}

bool is_duration(double seconds) { return seconds >= 0 && seconds < 1e9; }

}  // namespace

Blob encode_request(const JoinRequest& request) {
  Writer writer;
  writer.number(kRequest);
  writer.number(static_cast<std::int32_t>(request.rank));
  writer.number(static_cast<std::int32_t>(request.size));
  writer.number(static_cast<std::int32_t>(request.newcomers));
  writer.number(static_cast<std::int32_t>(request.at_least));
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

Blob encode_gathered(const Gathered& gathered) {
  Writer writer;
  writer.number(kGathered);
  writer.number(static_cast<std::int32_t>(gathered.rank));
  writer.number(static_cast<std::uint32_t>(gathered.blobs.size()));
  for (const Blob& blob : gathered.blobs) writer.bytes(blob);
  return std::move(writer).frame();
}

Blob encode_size(int ranks) {
  Writer writer;
  writer.number(kSize);
  writer.number(static_cast<std::int32_t>(ranks));
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
  request.newcomers = reader.number<std::int32_t>();
  request.at_least = reader.number<std::int32_t>();
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

Result<Gathered> decode_answer(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto kind = reader.number<std::uint8_t>();
  if (kind == kFailure) return tl::unexpected(read_failure(reader));
  if (kind != kGathered) return tl::unexpected(damaged_answer());
  Gathered gathered;
  gathered.rank = reader.number<std::int32_t>();
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) gathered.blobs.push_back(reader.bytes());
  if (!reader.at_end()) return tl::unexpected(damaged_answer());
  return gathered;
}

Result<int> decode_size(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto kind = reader.number<std::uint8_t>();
  if (kind == kFailure) return tl::unexpected(read_failure(reader));
  const auto ranks = reader.number<std::int32_t>();
  if (kind != kSize || !reader.at_end() || ranks < 1 || ranks > kMaxRanks) return tl::unexpected(damaged_answer());
  return ranks;
}

}  // namespace tutti
