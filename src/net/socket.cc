#include "net/socket.hpp"

#include <fmt/core.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/backoff.hpp"
#include "base/random.hpp"

namespace tutti {
namespace {

constexpr int kBacklog = 4096;

Result<Fd> open_socket(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) return system_error("opening a socket");
  return socket;
}

void set_flag(int descriptor, int level, int option, int value = 1) {
  // These only tune; a kernel that refuses one still gives a working socket.
  [[maybe_unused]] const int result = ::setsockopt(descriptor, level, option, &value, sizeof value);
}

// One attempt at one port. Empty: the port is taken.
Result<std::optional<Fd>> try_listen(const SocketAddress& address) {
  auto socket = open_socket(address.family());
  if (!socket) return tl::unexpected(socket.error());
  set_flag(socket->get(), SOL_SOCKET, SO_REUSEADDR);
  if (address.family() == AF_INET6) set_flag(socket->get(), IPPROTO_IPV6, IPV6_V6ONLY);
  if (::bind(socket->get(), address.raw(), address.length) != 0) {
    if (errno == EADDRINUSE) return std::optional<Fd>();
    return system_error(fmt::format("binding to {}", address.to_string()));
  }
  if (::listen(socket->get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) return std::optional<Fd>();
    return system_error(fmt::format("listening on {}", address.to_string()));
  }
  return std::optional<Fd>(std::move(*socket));
}

// Worth another attempt: nobody listens yet, or the way there is not up yet.
bool may_pass(int error) {
  return error == ECONNREFUSED || error == ECONNRESET || error == ECONNABORTED || error == ETIMEDOUT ||
         error == EHOSTUNREACH || error == ENETUNREACH || error == EHOSTDOWN || error == EAGAIN;
}

int pending_error(int descriptor) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) return errno;
  return error;
}

// A connection attempt to a free port of this host may be given that very port as its source, and meet itself.
bool met_itself(int descriptor) {
  const auto local = local_address(descriptor);
  const auto peer = peer_address(descriptor);
  return local && peer && *local == *peer;
}

struct Attempt {
  Fd connection;
  int error = 0;  // errno; ECONNREFUSED also where it met itself
};

// The error is what connect() said at once; none while it is under way.
Result<Attempt> begin(const SocketAddress& remote, const SocketAddress* source) {
  auto socket = open_socket(remote.family());
  if (!socket) return tl::unexpected(socket.error());
  set_flag(socket->get(), IPPROTO_TCP, TCP_NODELAY);
  if (source != nullptr) {
    // Without this the kernel reserves the source port for all remotes, and ports run out early.
    if (source->port() == 0) set_flag(socket->get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT);
    if (source->port() != 0) set_flag(socket->get(), SOL_SOCKET, SO_REUSEADDR);
    if (::bind(socket->get(), source->raw(), source->length) != 0)
      return system_error(fmt::format("connecting from {}", source->to_string()));
  }
  int error = 0;
  if (::connect(socket->get(), remote.raw(), remote.length) != 0 && errno != EINPROGRESS && errno != EINTR)
    error = errno;
  return Attempt{std::move(*socket), error};
}

Result<Attempt> attempt(const SocketAddress& remote, Deadline deadline, const SocketAddress* source) {
  auto begun = begin(remote, source);
  if (!begun || begun->error != 0) return begun;
  if (auto ready = wait_for(begun->connection.get(), POLLOUT, deadline); !ready) {
    if (ready.error().code == ErrorCode::timed_out) return Attempt{{}, ETIMEDOUT};
    return tl::unexpected(ready.error());
  }
  begun->error = connect_result(begun->connection.get());
  return begun;
}

tl::unexpected<Error> connect_error(const SocketAddress& remote, int error, ErrorCode code) {
  return fail(code, fmt::format("connecting to {}: {}", remote.to_string(), std::strerror(error)));
}

tl::unexpected<Error> closed_by(int descriptor) {
  return fail(ErrorCode::system, fmt::format("{} closed the connection", peer_name(descriptor)));
}

Result<SocketAddress> address_by(int (*query)(int, sockaddr*, socklen_t*), int descriptor, const char* what) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (query(descriptor, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) return system_error(what);
  return address;
}

}  // namespace

Result<Fd> listen_on(const SocketAddress& address, PortRange ports) {
  const bool fixed = address.port() != 0 || ports.first == 0;
  // A port the kernel picked may still be taken by the time we listen, if another bound to it meanwhile: ask again.
  const unsigned count = !fixed ? ports.last - ports.first + 1u : address.port() == 0 ? 16 : 1;
  const unsigned start = fixed ? 0 : static_cast<unsigned>(random_bits() % count);
  for (unsigned i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(fixed ? address.port() : ports.first + (start + i) % count);
    auto socket = try_listen(address.with_port(port));
    if (!socket) return tl::unexpected(socket.error());
    if (*socket) return std::move(**socket);
  }
  const std::string where =
      fixed ? fmt::format("port {}", address.port()) : fmt::format("every port of {}-{}", ports.first, ports.last);
  return fail(ErrorCode::system, fmt::format("listening on {}: {} is taken", address.host(), where));
}

Result<Fd> listen_on(const SocketAddress& address) {
  auto ports = port_range_setting();
  if (!ports) return tl::unexpected(ports.error());
  return listen_on(address, *ports);
}

Result<std::optional<Accepted>> accept_one(int listener) {
  while (true) {
    SocketAddress peer;
    peer.length = sizeof peer.storage;
    const int descriptor =
        ::accept4(listener, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      set_flag(descriptor, IPPROTO_TCP, TCP_NODELAY);
      return std::optional<Accepted>(Accepted{Fd(descriptor), peer});
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<Accepted>();
    // Linux passes pending network errors of the new connection through accept: such a peer is gone.
    const bool peer_is_gone = errno == EINTR || errno == EPROTO || errno == ENOPROTOOPT || may_pass(errno) ||
                              errno == ENETDOWN || errno == ENONET || errno == EOPNOTSUPP;
    if (!peer_is_gone) return system_error("accepting a connection");
  }
}

Result<Accepted> accept_before(int listener, Deadline deadline) {
  while (true) {
    auto accepted = accept_one(listener);
    if (!accepted) return tl::unexpected(accepted.error());
    if (*accepted) return std::move(**accepted);
    if (auto ready = wait_for(listener, POLLIN, deadline); !ready) return tl::unexpected(ready.error());
  }
}

Result<Fd> start_connect(const SocketAddress& remote, const SocketAddress* source) {
  auto begun = begin(remote, source);
  if (!begun) return tl::unexpected(begun.error());
  if (begun->error != 0) return connect_error(remote, begun->error, ErrorCode::system);
  return std::move(begun->connection);
}

int connect_result(int descriptor) {
  const int error = pending_error(descriptor);
  return error == 0 && met_itself(descriptor) ? ECONNREFUSED : error;
}

Status finish_connect(int descriptor) {
  if (const int error = connect_result(descriptor); error != 0)
    return fail(ErrorCode::system, fmt::format("connecting: {}", std::strerror(error)));
  return {};
}

Result<Fd> connect_once(const SocketAddress& remote, Deadline deadline, const SocketAddress* source) {
  auto tried = attempt(remote, deadline, source);
  if (!tried) return tl::unexpected(tried.error());
  if (tried->error == 0) return std::move(tried->connection);
  const auto code = tried->error == ETIMEDOUT ? ErrorCode::timed_out : ErrorCode::system;
  return connect_error(remote, tried->error, code);
}

Result<Fd> connect_to(const SocketAddress& remote, Deadline deadline, const SocketAddress* source) {
  const double given = deadline.seconds_left();
  Backoff backoff(0.001, 0.1);
  while (true) {
    auto tried = attempt(remote, deadline, source);
    if (!tried) return tl::unexpected(tried.error());
    if (tried->error == 0) return std::move(tried->connection);
    if (!may_pass(tried->error)) return connect_error(remote, tried->error, ErrorCode::system);
    if (deadline.passed()) {
      auto failure = connect_error(remote, tried->error, ErrorCode::timed_out);
      failure.value().message += fmt::format(" (tried for {:.3g} s)", given);
      return failure;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(backoff.next(), deadline.seconds_left())));
  }
}

Status wait_for(int descriptor, short events, Deadline deadline) {
  while (true) {
    pollfd entry{descriptor, events, 0};
    const int ready = ::poll(&entry, 1, deadline.poll_milliseconds(60000));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_error("waiting for a socket");
    if (deadline.passed()) return fail(ErrorCode::timed_out, fmt::format("{} did not answer", peer_name(descriptor)));
  }
}

Status send_all(int descriptor, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    auto sent = send_some(descriptor, bytes);
    if (!sent) return tl::unexpected(sent.error());
    bytes = bytes.subspan(*sent);
    if (*sent != 0) continue;
    if (auto ready = wait_for(descriptor, POLLOUT, deadline); !ready) return ready;
  }
  return {};
}

Status recv_all(int descriptor, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    auto received = recv_some(descriptor, bytes);
    if (!received) return tl::unexpected(received.error());
    bytes = bytes.subspan(*received);
    if (*received != 0) continue;
    if (auto ready = wait_for(descriptor, POLLIN, deadline); !ready) return ready;
  }
  return {};
}

Result<std::size_t> send_some(int descriptor, std::span<const std::byte> bytes) {
  while (true) {
    const ssize_t sent = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    if (errno == EPIPE) return closed_by(descriptor);
    if (errno != EINTR) return system_error(fmt::format("sending to {}", peer_name(descriptor)));
  }
}

Result<std::size_t> recv_some(int descriptor, std::span<std::byte> bytes) {
  if (bytes.empty()) return std::size_t{0};
  while (true) {
    const ssize_t received = ::recv(descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received == 0) return closed_by(descriptor);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    if (errno != EINTR) return system_error(fmt::format("receiving from {}", peer_name(descriptor)));
  }
}

Result<SocketAddress> local_address(int descriptor) {
  return address_by(&::getsockname, descriptor, "asking a socket for its own address");
}

Result<SocketAddress> peer_address(int descriptor) {
  return address_by(&::getpeername, descriptor, "asking a socket for its peer's address");
}

std::string peer_name(int descriptor) {
  const int saved_errno = errno;
  const auto address = peer_address(descriptor);
  errno = saved_errno;
  return address && address->length != 0 ? address->to_string() : "an unknown peer";
}

Status watch_idle(int descriptor, double seconds) {
  const int idle = std::max(1, static_cast<int>(std::floor(seconds / 2)));
  const int probes = std::max(1, static_cast<int>(std::ceil(seconds)) - idle);
  const auto set = [&](int level, int option, int value) {
    return ::setsockopt(descriptor, level, option, &value, sizeof value) == 0;
  };
  if (set(SOL_SOCKET, SO_KEEPALIVE, 1) && set(IPPROTO_TCP, TCP_KEEPIDLE, idle) && set(IPPROTO_TCP, TCP_KEEPINTVL, 1) &&
      set(IPPROTO_TCP, TCP_KEEPCNT, probes))
    return {};
  return system_error("watching an idle connection");
}

Status watch_silence(int descriptor, double seconds) {
  const auto unacknowledged_ms = static_cast<int>(seconds * 1000);
  if (Status watched = watch_idle(descriptor, seconds); !watched) return watched;
  if (::setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms) == 0)
    return {};
  return system_error("watching a connection for silence");
}

}  // namespace tutti
