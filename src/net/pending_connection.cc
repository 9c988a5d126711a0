#include "net/pending_connection.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

Blob with_length(const Blob& bytes) {
  WireWriter out;
  out.put_bytes(bytes);
  return out.take();
}

bool is_writable(int descriptor) {
  pollfd entry{descriptor, POLLOUT, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

PendingConnection::PendingConnection(Fd socket, const SocketAddress& remote, std::string name, bool is_local, Role role,
                                     Purpose purpose, const JobKey& key)
    : socket_(std::move(socket)),
      remote_(remote),
      name_(std::move(name)),
      is_local_(is_local),
      role_(role),
      handshake_(role == Role::accepted ? Side::acceptor : Side::connector, purpose, key, remote),
      // A local connection is open at once.
      stage_(role == Role::accepted || is_local ? Stage::proving : Stage::connecting) {}

Result<PendingConnection> PendingConnection::connect(Sockets& sockets, const Route& route, Role role, Purpose purpose,
                                                     const JobKey& key, const Blob& greeting) {
  auto socket = route.is_local() ? sockets.connect_local(route.local)
                                 : sockets.connect(route.remote, route.source ? &*route.source : nullptr);
  if (!socket) return tl::unexpected(socket.error());
  const SocketAddress remote = route.is_local() ? SocketAddress::loopback() : route.remote;
  PendingConnection connection(std::move(*socket), remote, route.to_string(), route.is_local(), role, purpose, key);
  connection.sockets_ = &sockets;
  connection.output_ = with_length(greeting);
  return connection;
}

Result<PendingConnection> PendingConnection::dial(Sockets& sockets, const Route& route, Purpose purpose,
                                                  const JobKey& key, const Blob& greeting) {
  return connect(sockets, route, Role::dialed, purpose, key, greeting);
}

Result<PendingConnection> PendingConnection::pass_on(Sockets& sockets, const Route& route, Purpose purpose,
                                                     const JobKey& key, const Blob& greeting) {
  return connect(sockets, route, Role::passed_on, purpose, key, greeting);
}

PendingConnection PendingConnection::accept(Accepted accepted, Purpose purpose, const JobKey& key, std::size_t limit) {
  const bool is_local = accepted.peer.family() == AF_UNIX;
  const SocketAddress remote = is_local ? SocketAddress::loopback() : accepted.peer;
  PendingConnection connection(std::move(accepted.connection), remote,
                               is_local ? "a process of this host" : remote.to_string(), is_local, Role::accepted,
                               purpose, key);
  connection.limit_ = limit;
  return connection;
}

std::uint32_t PendingConnection::events() const {
  switch (stage_) {
    case Stage::connecting:
    case Stage::sending:
      return EPOLLOUT;
    case Stage::proving:
      // POLLIN and POLLOUT are EPOLLIN and EPOLLOUT. A handshake that is not allowed waits for nothing, and fails at
      // once.
      return handshake_.events() != 0 ? static_cast<std::uint32_t>(handshake_.events()) : std::uint32_t{EPOLLOUT};
    case Stage::receiving:
      return EPOLLIN;
    case Stage::greeted:
      return is_half_closed_ ? 0u : std::uint32_t{EPOLLRDHUP};
    case Stage::done:
      break;
  }
  return 0;
}

Result<PendingConnection::Stage> PendingConnection::advance() {
  const bool was_greeted = stage_ == Stage::greeted;
  // Whoever has just greeted is judged by that, even if it went away since.
  while (stage_ != Stage::done && (stage_ != Stage::greeted || was_greeted)) {
    const auto over = step();
    if (!over) return tl::unexpected(over.error());
    if (!*over) break;
  }
  return stage_;
}

Result<bool> PendingConnection::step() {
  switch (stage_) {
    case Stage::connecting:
      return finish_connect();
    case Stage::proving:
      return prove();
    case Stage::sending:
      return send();
    case Stage::receiving:
      return receive();
    case Stage::greeted:
      return await_reply();
    case Stage::done:
      break;
  }
  return false;
}

Result<bool> PendingConnection::finish_connect() {
  if (!is_writable(socket_.get())) return false;
  if (const int error = sockets_->connect_result(socket_.get()); error != 0)
    return give_up(error == ECONNREFUSED ? ConnectFailure::nobody_listens : ConnectFailure::no_answer,
                   ErrorCode::system, fmt::format("connecting to {}: {}", name_, std::strerror(error)));
  stage_ = Stage::proving;
  return true;
}

Result<bool> PendingConnection::prove() {
  const auto proven = handshake_.advance(socket_.get());
  if (!proven) {
    failure_ = handshake_.rejected() ? ConnectFailure::rejected : ConnectFailure::ended;
    return tl::unexpected(proven.error());
  }
  if (!*proven) return false;
  stage_ = role_ == Role::accepted ? Stage::receiving : Stage::sending;
  return true;
}

Result<bool> PendingConnection::send() {
  const auto sent = send_some(socket_.get(), unsent());
  if (!sent) return tl::unexpected(sent.error());
  sent_ += *sent;
  if (sent_ != output_.size()) return false;
  stage_ = role_ == Role::dialed ? Stage::receiving : Stage::done;
  return true;
}

Result<bool> PendingConnection::receive() {
  if (!has_length_) {
    const auto came = receive_into(sizeof(std::uint32_t));
    if (!came || !*came) return came;
    const auto length = WireReader(input_).get<std::uint32_t>();
    if (length == 0 || length > limit_)
      return give_up(ConnectFailure::rejected, ErrorCode::refused,
                     fmt::format("{} greets with {} bytes; expected 1 to {}", name_, length, limit_));
    has_length_ = true;
    received_ = 0;
    input_.assign(length, std::byte{0});
  }
  const auto came = receive_into(input_.size());
  if (!came || !*came) return came;
  stage_ = role_ == Role::accepted ? Stage::greeted : Stage::done;
  return true;
}

Result<bool> PendingConnection::receive_into(std::size_t bytes) {
  input_.resize(bytes);
  const auto received = recv_some(socket_.get(), std::span(input_).subspan(received_));
  if (!received) return tl::unexpected(received.error());
  received_ += *received;
  return received_ == bytes;
}

// Looks whether it is still there, without reading what it may have said after its greeting.
Result<bool> PendingConnection::await_reply() {
  std::byte next;
  const ssize_t waiting = ::recv(socket_.get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool is_gone = waiting == 0 || (waiting < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  if (is_gone) return give_up(ConnectFailure::ended, ErrorCode::system, fmt::format("{} went away", name_));
  is_half_closed_ = waiting > 0;
  return false;
}

void PendingConnection::reply(const Blob& bytes) {
  if (stage_ != Stage::greeted) return;
  if (!bytes.empty()) output_ = with_length(bytes);
  stage_ = bytes.empty() ? Stage::done : Stage::sending;
}

Error PendingConnection::late() const {
  if (stage_ == Stage::proving) return handshake_.late();
  const bool connects = stage_ == Stage::connecting;
  return fail(ErrorCode::timed_out, connects ? fmt::format("connecting to {}: no answer", name_)
                                             : fmt::format("{} did not greet in time", name_))
      .value();
}

tl::unexpected<Error> PendingConnection::give_up(ConnectFailure failure, ErrorCode code, const std::string& why) {
  failure_ = failure;
  return fail(code, why);
}

}  // namespace tutti
