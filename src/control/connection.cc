#include "control/connection.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/wire.hpp"
#include "net/local_listener.hpp"

namespace tutti {
namespace {

constexpr std::size_t kReadBytes = 64u << 10;
constexpr std::size_t kReadsPerTurn = 16;  // one talkative peer does not keep the others waiting

std::vector<std::byte> encode_greeting(const Greeting& greeting) {
  WireWriter out;
  for (const ProcessId& id : {greeting.from, greeting.to}) {
    out.put(id.high);
    out.put(id.low);
  }
  out.put(static_cast<std::uint8_t>(greeting.lifeline ? 1 : 0));
  return encode_frame(ControlFrame::greeting, out.take());
}

// Of a connection on which nothing more can be read.
bool peer_ended_stream(int descriptor) {
  tcp_info info{};
  socklen_t length = sizeof info;
  return ::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state == TCP_CLOSE_WAIT;
}

// What comes through a door comes from this host.
SocketAddress remote_of(const ControlWay& way) { return way.by_door() ? SocketAddress::loopback() : way.address; }

// Without reading what it said.
bool gone(int descriptor) {
  std::byte next;
  const ssize_t waiting = ::recv(descriptor, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return waiting == 0 || (waiting < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace

ControlConnection::ControlConnection(Fd socket, const ControlWay& way, Side side, const JobKey& key)
    : socket_(std::move(socket)),
      remote_(remote_of(way)),
      by_door_(way.by_door()),
      name_(way.to_string()),
      // A door is open at once.
      state_(side == Side::connector && !by_door_ ? State::connecting : State::proving),
      handshake_(std::in_place, side, Purpose::control, key, remote_) {
  // What is lost while a rail is silent is sent again in even steps, not after pauses that double: seconds matter.
  const int on = 1;
  if (!by_door_) ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
}

Result<ControlConnection> ControlConnection::dial(const ControlWay& way, const JobKey& key, const Greeting& greeting) {
  auto socket = way.by_door() ? connect_local(way.door) : start_connect(way.address);
  if (!socket) return tl::unexpected(socket.error());
  ControlConnection connection(std::move(*socket), way, Side::connector, key);
  connection.own_greeting_ = greeting;
  return connection;
}

Result<ControlConnection> ControlConnection::forward(const ControlWay& way, const JobKey& key,
                                                     const Greeting& greeting) {
  auto connection = dial(way, key, greeting);
  if (connection) connection->forwards_ = true;
  return connection;
}

ControlConnection ControlConnection::accepted(Accepted accepted, const JobKey& key) {
  const bool by_door = accepted.peer.family() == AF_UNIX;
  const ControlWay way{accepted.peer, by_door ? "a process of this host" : ""};
  return {std::move(accepted.connection), way, Side::acceptor, key};
}

std::uint32_t ControlConnection::events() const {
  if (state_ == State::connecting) return EPOLLOUT;
  if (state_ == State::proving)
    return ((handshake_->events() & POLLOUT) != 0 ? EPOLLOUT : 0u) |
           ((handshake_->events() & POLLIN) != 0 ? EPOLLIN : 0u);
  return (awaits_welcome() ? 0u : EPOLLIN) | (idle() ? 0u : EPOLLOUT);
}

Result<std::size_t> ControlConnection::advance(const Receive& receive) {
  if (state_ == State::connecting) {
    if (const int error = connect_result(socket_.get()); error != 0) {
      nobody_listens_ = error == ECONNREFUSED;
      return fail(ErrorCode::system, fmt::format("connecting to {}: {}", name_, std::strerror(error)));
    }
    state_ = State::proving;
  }
  if (state_ == State::proving)
    if (auto proven = prove(); !proven) return tl::unexpected(proven.error());
  if (state_ == State::proving) return std::size_t{0};
  if (forwards_) {
    if (auto flushed = flush(); !flushed) return tl::unexpected(flushed.error());
    return std::size_t{0};
  }
  if (awaits_welcome() && gone(socket_.get())) return fail(ErrorCode::system, fmt::format("{} went away", name_));
  // First what came: a peer's goodbye counts even where sending to it fails.
  auto got = read(receive);
  if (!got) return got;
  if (overflowed_) return fail(ErrorCode::system, fmt::format("{} takes no more", name_));
  if (auto flushed = flush(); !flushed) return tl::unexpected(flushed.error());
  return got;
}

Status ControlConnection::prove() {
  auto done = handshake_->advance(socket_.get());
  if (!done) {
    Error error = done.error();
    // Going away is no offence: it may have been told to leave.
    if (error.message == handshake_->closed().message) error.code = ErrorCode::system;
    return tl::unexpected(error);
  }
  if (!*done) return {};
  handshake_.reset();
  state_ = State::greeting;
  if (own_greeting_) queue(encode_greeting(*own_greeting_));
  return {};
}

Result<std::size_t> ControlConnection::read(const Receive& receive) {
  std::size_t total = 0;
  for (std::size_t reads = 0; reads < kReadsPerTurn && !awaits_welcome(); ++reads) {
    const std::size_t before = input_.size();
    // A stranger to this world has no more than a greeting to say; the rest stays in the socket until it is welcome.
    const std::size_t wanted = state_ == State::greeting ? kFrameHeader + Greeting::kBytes - before : kReadBytes;
    input_.resize(before + wanted);
    const auto got = recv_some(socket_.get(), std::span(input_).subspan(before));
    input_.resize(before + (got ? *got : 0));
    if (!got) ended_in_order_ = peer_ended_stream(socket_.get());
    if (!got) return got;
    if (*got == 0) break;
    total += *got;
    if (auto parsed = parse(receive); !parsed) return tl::unexpected(parsed.error());
  }
  return total;
}

Status ControlConnection::parse(const Receive& receive) {
  std::size_t at = 0;
  while (input_.size() - at >= kFrameHeader) {
    WireReader header(std::span<const std::byte>(input_).subspan(at, kFrameHeader));
    const auto bytes = header.get<std::uint32_t>();
    const auto kind = header.get<ControlFrame>();
    if (bytes > kFrameLimit)
      return fail(ErrorCode::refused,
                  fmt::format("{} announces a frame of {} bytes, more than {}", name_, bytes, kFrameLimit));
    if (state_ == State::greeting && (kind != ControlFrame::greeting || bytes != Greeting::kBytes))
      return fail(ErrorCode::refused, fmt::format("{} does not greet", name_));
    if (input_.size() - at - kFrameHeader < bytes) break;
    const auto payload = std::span<const std::byte>(input_).subspan(at + kFrameHeader, bytes);
    at += kFrameHeader + bytes;
    if (state_ == State::greeting) {
      if (auto taken = take_greeting(payload); !taken) return taken;
    } else if (state_ == State::open) {
      receive(kind, payload);
    }
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(at));
  return {};
}

Status ControlConnection::take_greeting(std::span<const std::byte> payload) {
  WireReader in(payload);
  Greeting greeting;
  for (ProcessId* id : {&greeting.from, &greeting.to}) {
    id->high = in.get<std::uint64_t>();
    id->low = in.get<std::uint64_t>();
  }
  greeting.lifeline = in.get<std::uint8_t>() != 0;
  if (own_greeting_) {
    if (greeting.from != own_greeting_->to || greeting.to != own_greeting_->from)
      return fail(ErrorCode::refused, fmt::format("{} is not the process we looked for", name_));
    state_ = State::open;
  }
  greeting_ = greeting;
  return {};
}

void ControlConnection::welcome(const Greeting& own) {
  state_ = State::open;
  queue(encode_greeting(own));
}

bool ControlConnection::queue(std::span<const std::byte> frame) {
  if (queued_ + frame.size() > kQueueLimit) overflowed_ = true;
  if (state_ == State::draining || overflowed_) return false;
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
  if (state_ == State::draining && !ended_output_) {
    ended_output_ = true;
    ::shutdown(socket_.get(), SHUT_WR);
  }
  return {};
}

void ControlConnection::drain() {
  if (state_ == State::draining) return;
  state_ = State::draining;
  (void)flush();  // an error shows at the next advance
}

}  // namespace tutti
