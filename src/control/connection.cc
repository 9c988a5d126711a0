#include "control/connection.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/wire.hpp"
#include "net/socket.hpp"

namespace tutti {
namespace {

constexpr std::size_t kReadBytes = 64u << 10;
constexpr std::size_t kReadsPerTurn = 16;  // one talkative peer does not keep the others waiting

// Of a connection on which nothing more can be read.
bool peer_ended_stream(int descriptor) {
  tcp_info info{};
  socklen_t length = sizeof info;
  return ::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state == TCP_CLOSE_WAIT;
}

}  // namespace

ControlConnection::ControlConnection(Fd socket, std::string name) : socket_(std::move(socket)), name_(std::move(name)) {
  // What is lost while a rail is silent is sent again in even steps, not after pauses that double: seconds matter. A
  // local socket refuses the option, and does not need it.
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
}

std::uint32_t ControlConnection::events() const { return EPOLLIN | (idle() ? 0u : std::uint32_t{EPOLLOUT}); }

Result<std::size_t> ControlConnection::advance(const Receive& receive) {
  // First what came: a peer's goodbye counts even if sending to it fails.
  auto got = read(receive);
  if (!got) return got;
  if (overflowed_) return fail(ErrorCode::system, fmt::format("{} takes no more", name_));
  if (auto flushed = flush(); !flushed) return tl::unexpected(flushed.error());
  return got;
}

Result<std::size_t> ControlConnection::read(const Receive& receive) {
  std::size_t total = 0;
  for (std::size_t reads = 0; reads < kReadsPerTurn; ++reads) {
    std::array<std::byte, kReadBytes> bytes;  // not cleared: most of it stays unused
    const auto got = recv_some(socket_.get(), bytes);
    if (!got) ended_in_order_ = peer_ended_stream(socket_.get());
    if (!got) return got;
    if (*got == 0) break;
    total += *got;
    input_.insert(input_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(*got));
    if (auto parsed = parse(receive); !parsed) return tl::unexpected(parsed.error());
  }
  return total;
}

Status ControlConnection::parse(const Receive& receive) {
  std::size_t at = 0;
  while (!is_draining_ && input_.size() - at >= kFrameHeader) {
    WireReader header(std::span<const std::byte>(input_).subspan(at, kFrameHeader));
    const auto bytes = header.get<std::uint32_t>();
    const auto kind = header.get<ControlFrame>();
    if (bytes > kFrameLimit)
      return fail(ErrorCode::refused,
                  fmt::format("{} announces a frame of {} bytes, more than {}", name_, bytes, kFrameLimit));
    if (input_.size() - at - kFrameHeader < bytes) break;
    const auto payload = std::span<const std::byte>(input_).subspan(at + kFrameHeader, bytes);
    at += kFrameHeader + bytes;
    receive(kind, payload);
  }
  if (is_draining_) at = input_.size();
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(at));
  return {};
}

bool ControlConnection::queue(std::span<const std::byte> frame) {
  if (queued_ + frame.size() > kQueueLimit) overflowed_ = true;
  if (is_draining_ || overflowed_) return false;
  output_.emplace_back(frame.begin(), frame.end());
  queued_ += frame.size();
  return true;
}

Status ControlConnection::flush() {
  while (!output_.empty()) {
    const auto rest = std::span<const std::byte>(output_.front()).subspan(sent_of_front_);
    const auto sent = send_some(socket_.get(), rest);
    if (!sent) return tl::unexpected(sent.error());
    sent_of_front_ += *sent;
    queued_ -= *sent;
    if (*sent < rest.size()) return {};
    output_.pop_front();
    sent_of_front_ = 0;
  }
  if (is_draining_ && !ended_output_) {
    ended_output_ = true;
    ::shutdown(socket_.get(), SHUT_WR);
  }
  return {};
}

void ControlConnection::drain() {
  if (is_draining_) return;
  is_draining_ = true;
  (void)flush();  // an error shows at the next advance
}

}  // namespace tutti
