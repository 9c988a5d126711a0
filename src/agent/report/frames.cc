#include "agent/report/frames.hpp"

#include <fmt/core.h>

#include <cmath>
#include <iterator>
#include <utility>

namespace tutti::agent {
namespace {

constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kHeaderBytes = sizeof(std::uint32_t) + sizeof(std::uint8_t);
constexpr std::size_t kMostHostName = 255;
constexpr double kMostSeconds = 1e12;
constexpr std::string_view kNames[] = {"telemetry", "look", "alive", "pace", "ask", "hosts", "job", "end"};
static_assert(std::size(kNames) == kFrameKinds);

std::string text_of(Blob bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Whether differences of such nanoseconds have room.
bool is_moment(std::int64_t nanoseconds) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  return nanoseconds > -kMost && nanoseconds < kMost;
}

bool is_printable(std::string_view text) {
  for (const char c : text)
    if (c < ' ' || c > '~') return false;
  return true;
}

}  // namespace

std::string_view name_of(FrameKind kind) { return kNames[static_cast<std::size_t>(kind) - 1]; }

Blob encode(FrameKind kind, std::string_view payload) {
  WireWriter out;
  out.put(static_cast<std::uint32_t>(payload.size()));
  out.put(kind);
  out.put_raw(bytes_of(payload));
  return out.take();
}

void ReportReader::add(std::span<const std::byte> bytes) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(std::exchange(taken_, 0)));
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Frame>> ReportReader::next() {
  if (bytes_.size() - taken_ < kHeaderBytes) return std::nullopt;
  const std::span<const std::byte> rest = bytes_;
  WireReader in(rest.subspan(taken_));
  const auto length = in.get<std::uint32_t>();
  const auto kind = in.get<std::uint8_t>();
  if (kind < 1 || kind > kFrameKinds)
    return fail(ErrorCode::refused, fmt::format("a frame of kind {}; expected 1 to {}", kind, kFrameKinds));
  if (length > most_bytes_)
    return fail(ErrorCode::refused, fmt::format("a {} of {} bytes; expected {} at most",
                                                name_of(static_cast<FrameKind>(kind)), length, most_bytes_));
  if (in.rest().size() < length) return std::nullopt;
  Frame frame{static_cast<FrameKind>(kind), {}};
  const auto payload = in.view(length);
  frame.payload.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
  taken_ += kHeaderBytes + length;
  return frame;
}

Blob encode(const Hello& hello) {
  WireWriter out;
  out.put(kFormat);
  out.put(hello.speaker);
  out.put(hello.place);
  out.put_text(std::string_view(hello.host).substr(0, kMostHostName));
  return out.take();
}

Result<Hello> decode_hello(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  const auto format = in.get<std::uint32_t>();
  if (format != kFormat)
    return fail(ErrorCode::refused, fmt::format("it speaks format {} of reports; expected {}", format, kFormat));
  Hello hello;
  const auto speaker = in.get<std::uint8_t>();
  hello.place = in.get<std::uint64_t>();
  hello.host = in.get_text();
  if (!in.complete() || hello.host.size() > kMostHostName || !is_printable(hello.host))
    return fail(ErrorCode::refused, "its greeting has no name of a host that is whole and printable");
  if (speaker != static_cast<std::uint8_t>(Hello::Speaker::agent) &&
      speaker != static_cast<std::uint8_t>(Hello::Speaker::asker))
    return fail(ErrorCode::refused, fmt::format("it greets as {}; expected an agent (1) or one who asks (2)", speaker));
  hello.speaker = static_cast<Hello::Speaker>(speaker);
  return hello;
}

std::string encode(const LookMessage& look) {
  WireWriter out;
  out.put(look.looked_at);
  out.put(look.sent);
  out.put(static_cast<std::uint8_t>(look.offset_known));
  out.put(look.offset);
  out.put(static_cast<std::uint32_t>(look.jobs.size()));
  for (const std::uint64_t job : look.jobs) out.put(job);
  return text_of(out.take());
}

Result<LookMessage> decode_look(std::string_view payload) {
  WireReader in(bytes_of(payload));
  LookMessage look;
  look.looked_at = in.get<double>();
  look.sent = in.get<std::int64_t>();
  look.offset_known = in.get<std::uint8_t>() != 0;
  look.offset = in.get<std::int64_t>();
  const auto jobs = in.get<std::uint32_t>();
  if (jobs > kMostJobs)
    return fail(ErrorCode::refused, fmt::format("a look at {} jobs; expected {} at most", jobs, kMostJobs));
  for (std::uint32_t i = 0; i < jobs; ++i) look.jobs.push_back(in.get<std::uint64_t>());
  const bool moments = std::isfinite(look.looked_at) && std::abs(look.looked_at) < kMostSeconds &&
                       is_moment(look.sent) && is_moment(look.offset);
  if (!in.complete() || !moments) return fail(ErrorCode::refused, "a look that is not whole");
  return look;
}

std::string encode(const PaceMessage& pace) {
  WireWriter out;
  out.put(pace.sent);
  out.put(pace.heard);
  out.put(pace.told);
  out.put(static_cast<std::uint8_t>(pace.incident));
  return text_of(out.take());
}

Result<PaceMessage> decode_pace(std::string_view payload) {
  WireReader in(bytes_of(payload));
  PaceMessage pace;
  pace.sent = in.get<std::int64_t>();
  pace.heard = in.get<std::int64_t>();
  pace.told = in.get<std::int64_t>();
  pace.incident = in.get<std::uint8_t>() != 0;
  if (!in.complete() || !is_moment(pace.sent) || !is_moment(pace.heard) || !is_moment(pace.told))
    return fail(ErrorCode::refused, "a pace that is not whole");
  return pace;
}

}  // namespace tutti::agent
