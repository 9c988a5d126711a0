#include "agent/report/frame_stream.hpp"

#include <array>

#include "net/socket.hpp"

namespace tutti::agent {
namespace {

constexpr std::size_t kPart = std::size_t{1} << 16;
constexpr int kPartsPerTurn = 4;

}  // namespace

void FrameStream::push(FrameKind kind, std::string_view payload) {
  if (!has_backlog()) {
    out_.clear();
    written_ = 0;
  }
  const Blob frame = encode(kind, payload);
  out_.insert(out_.end(), frame.begin(), frame.end());
}

Status FrameStream::flush() {
  while (has_backlog()) {
    const auto sent = send_some(socket_.get(), std::span(out_).subspan(written_));
    if (!sent) return tl::unexpected(sent.error());
    if (*sent == 0) return {};
    written_ += *sent;
  }
  return {};
}

Status FrameStream::receive(const std::function<Status(Frame)>& take) {
  std::array<std::byte, kPart> part;
  for (int turn = 0; turn < kPartsPerTurn; ++turn) {
    const auto received = recv_some(socket_.get(), part);
    if (!received) return tl::unexpected(received.error());
    if (*received == 0) return {};
    reader_.add(std::span(part).first(*received));
    while (true) {
      auto frame = reader_.next();
      if (!frame) return tl::unexpected(frame.error());
      if (!*frame) break;
      if (Status taken = take(std::move(**frame)); !taken) return taken;
    }
  }
  return {};
}

}  // namespace tutti::agent
