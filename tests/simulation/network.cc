#include "network.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <linux/tcp.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::simulated {
namespace {

constexpr std::size_t kBuffer = 96 << 10;  // bytes, of each end and direction
constexpr Time kFirstRetransmission = 200 * kMillisecond;
constexpr Time kLongestPause = 60 * kSecond;
constexpr Time kFirstSyn = kSecond;
constexpr Time kConnectTimeout = 127 * kSecond;
constexpr std::uint32_t kNet = 0xc6120000;  // 198.18.0.0, which belongs to nobody

}  // namespace

Network* Network::instance_ = nullptr;

Network::Network(Kernel& kernel, int hosts, int rails)
    : kernel_(kernel),
      hosts_(hosts),
      rails_(rails),
      base_latency_(kernel.random().pick(5, 200) * kMicrosecond),
      paths_(static_cast<std::size_t>(hosts * hosts * rails)),
      ports_up_(static_cast<std::size_t>(hosts * rails), true),
      next_port_(static_cast<std::size_t>(hosts), 20000) {
  instance_ = this;
}

Address Network::address_of(const sockaddr_in& address) {
  const std::uint32_t host = ntohl(address.sin_addr.s_addr);
  const std::uint16_t port = ntohs(address.sin_port);
  if ((host & 0xffff0000) != kNet) return {-1, -1, port, {}};  // any, or loopback
  return {static_cast<int>(host & 0xff) - 1, static_cast<int>(host >> 8 & 0xff), port, {}};
}

sockaddr_in Network::raw(const Address& address) {
  sockaddr_in raw{};
  raw.sin_family = AF_INET;
  raw.sin_port = htons(address.port);
  const bool is_any = address.rail < 0;
  raw.sin_addr.s_addr = htonl(is_any ? INADDR_ANY
                                     : kNet | static_cast<std::uint32_t>(address.rail) << 8 |
                                           static_cast<std::uint32_t>(address.host + 1));
  return raw;
}

std::uint32_t PortNews::ready() const { return messages > 0 ? std::uint32_t{EPOLLIN} : 0u; }

std::uint32_t Socket::ready() const {
  switch (state) {
    case State::listening:
      return waiting.empty() ? 0u : std::uint32_t{EPOLLIN};
    case State::idle:
    case State::connecting:
      return error != 0 ? EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP : state == State::idle ? EPOLLOUT | EPOLLHUP : 0;
    case State::broken:
      return EPOLLIN | EPOLLOUT | EPOLLHUP | EPOLLRDHUP | (error != 0 ? std::uint32_t{EPOLLERR} : 0u);
    case State::connected:
      break;
  }
  const Stream& out = connection->stream[end];
  const Stream& in = connection->stream[1 - end];
  std::uint32_t events = 0;
  if (in.unread() > 0 || in.ended) events |= EPOLLIN;
  if (in.ended) events |= EPOLLRDHUP;
  if (in.ended && cannot_send) events |= EPOLLHUP;
  if (out.unacknowledged.size() < kBuffer * 2 / 3 || cannot_send) events |= EPOLLOUT;
  return events;
}

void Socket::closed() { Network::get().close(*this); }

bool Network::passes(const Address& from, const Address& to) {
  if (from.host == to.host) return true;
  if (from.rail != to.rail) return false;
  return is_up(from.host, from.rail) && is_up(to.host, to.rail) && !path(from.host, to.host, from.rail).cut;
}

Time Network::latency(const Address& from, const Address& to, std::size_t bytes) {
  if (from.host == to.host) return kernel_.random().pick(1, 20) * kMicrosecond;
  const Path& way = path(from.host, to.host, std::max(from.rail, 0));
  const auto jitter = static_cast<Time>(static_cast<double>(base_latency_) * 0.001 *
                                        static_cast<double>(kernel_.random().pick(0, 1000)));
  return base_latency_ + jitter + way.extra + static_cast<Time>(static_cast<double>(bytes) * way.slowness);
}

void Network::set_port(int host, int rail, bool up) {
  if (is_up(host, rail) == up) return;
  ports_up_[static_cast<std::size_t>(host * rails_ + rail)] = up;
  for (const auto& [news, of] : news_)
    if (const auto file = news.lock(); file && of == host) {
      ++file->messages;
      kernel_.notify(*file);
    }
}

void Network::mend() {
  for (Path& each : paths_) each = {};
  for (int host = 0; host < hosts_; ++host)
    for (int rail = 0; rail < rails_; ++rail) set_port(host, rail, true);
}

int Network::reset_some(const Process& process, double share) {
  int count = 0;
  for (const auto& weak : std::vector(connections_)) {
    const Link connection = weak.lock();
    if (!connection || !connection->made) continue;
    const bool is_ours = std::any_of(connection->socket, connection->socket + 2,
                                     [&](const Socket* each) { return each != nullptr && each->owner == &process; });
    if (!is_ours || !kernel_.random().chance(share)) continue;
    ++count;
    for (const int end : {0, 1}) reset_arrives(connection, end, ECONNRESET);
  }
  return count;
}

std::uint16_t Network::free_port(int host) { return next_port_[static_cast<std::size_t>(host)]++; }

int Network::bind(Socket& socket, Address address) {
  if (socket.domain == AF_INET) {
    if (address.host >= 0 && address.host != socket.owner->host) return EADDRNOTAVAIL;
    if (address.host >= 0 && !is_up(address.host, address.rail)) return EADDRNOTAVAIL;
    address.host = socket.owner->host;
    if (address.port != 0 && listeners_.contains({address.host, address.port})) return EADDRINUSE;
  }
  socket.address = std::move(address);
  socket.bound = true;
  return 0;
}

int Network::listen(Socket& socket) {
  socket.state = Socket::State::listening;
  if (socket.domain == AF_UNIX) {
    local_listeners_[socket.address.path] = &socket;
    return 0;
  }
  if (socket.address.port == 0) socket.address.port = free_port(socket.owner->host);
  socket.address.host = socket.owner->host;
  const auto [at, is_free] = listeners_.try_emplace({socket.address.host, socket.address.port}, &socket);
  return is_free ? 0 : EADDRINUSE;
}

int Network::connect(const std::shared_ptr<Socket>& socket, Address remote) {
  const int host = socket->owner->host;
  auto connection = std::make_shared<Connection>();
  connection->exists[0] = true;
  connection->socket[0] = socket.get();
  socket->connection = connection;
  ++counts_.connections;
  if (socket->domain == AF_UNIX) {
    const auto found = local_listeners_.find(remote.path);
    if (found == local_listeners_.end()) return ECONNREFUSED;
    connection->address[0] = {host, -1, 0, {}};
    connection->address[1] = found->second->address;
    connection->address[1].host = host;
    connection->exists[1] = connection->made = true;
    found->second->waiting.push_back(connection);
    kernel_.notify(*found->second);
    socket->state = Socket::State::connected;
    connections_.push_back(connection);
    return 0;
  }
  if (remote.host < 0) remote = {host, 0, remote.port, {}};  // loopback
  if (remote.host >= hosts_) return ENETUNREACH;
  Address own = socket->address;
  if (!socket->bound || own.rail < 0) own = {host, remote.rail, own.port, {}};
  if (own.port == 0) own.port = free_port(host);
  if (remote.host != host && !is_up(host, own.rail)) return ENETUNREACH;
  socket->address = own;
  socket->state = Socket::State::connecting;
  connection->address[0] = own;
  connection->address[1] = remote;
  connections_.push_back(connection);
  begin_connecting(socket, connection, kFirstSyn);
  kernel_.after(kConnectTimeout, [this, connection] {
    if (!connection->made) reset_arrives(connection, 0, ETIMEDOUT);
  });
  return EINPROGRESS;
}

void Network::begin_connecting(const std::weak_ptr<Socket>& socket, Link connection, Time pause) {
  if (!connection->exists[0] || connection->made || connection->socket[0] == nullptr) return;
  kernel_.after(latency(connection->address[0], connection->address[1], 64), [this, connection] {
    if (passes(connection->address[0], connection->address[1])) syn_arrives(connection);
  });
  kernel_.after(pause, [this, socket, connection, pause] { begin_connecting(socket, connection, pause * 2); });
}

void Network::syn_arrives(const Link& connection) {
  if (!connection->exists[0]) return;
  const Address& to = connection->address[1];
  const auto found = listeners_.find({to.host, to.port});
  const auto back = latency(to, connection->address[0], 64);
  const bool listens = connection->exists[1] || (found != listeners_.end() && !found->second->owner->dead);
  if (!listens) {
    ++counts_.refused;
    kernel_.after(back, [this, connection] {
      if (passes(connection->address[1], connection->address[0])) reset_arrives(connection, 0, ECONNREFUSED);
    });
    return;
  }
  connection->exists[1] = true;
  kernel_.after(back, [this, connection] {
    if (passes(connection->address[1], connection->address[0])) connected(connection);
  });
}

void Network::connected(const Link& connection) {
  Socket* const socket = connection->socket[0];
  if (socket == nullptr || connection->made) return;
  connection->made = true;
  socket->state = Socket::State::connected;
  socket->heard = kernel_.now();
  kernel_.notify(*socket);
  enqueue(connection);
}

// The last part of the handshake arrives, or is sent again.
void Network::enqueue(const Link& connection) {
  const Address& to = connection->address[1];
  const bool arrives = passes(connection->address[0], to);
  kernel_.after(arrives ? latency(connection->address[0], to, 64) : kFirstRetransmission, [this, connection, arrives] {
    if (!connection->exists[1]) return;
    if (!arrives) return enqueue(connection);
    const Address& at = connection->address[1];
    const auto listener = listeners_.find({at.host, at.port});
    if (listener == listeners_.end()) {
      connection->exists[1] = false;
      return send_reset(connection, 1);
    }
    listener->second->waiting.push_back(connection);
    kernel_.notify(*listener->second);
  });
}

std::shared_ptr<Socket> Network::accept(Socket& listener) {
  while (!listener.waiting.empty()) {
    const Link connection = listener.waiting.front();
    listener.waiting.pop_front();
    if (!connection->exists[1]) continue;  // reset meanwhile
    auto socket = std::make_shared<Socket>(listener.domain);
    socket->state = Socket::State::connected;
    socket->address = connection->address[1];
    socket->connection = connection;
    socket->end = 1;
    socket->heard = kernel_.now();
    connection->socket[1] = socket.get();
    return socket;
  }
  return nullptr;
}

long Network::send(Socket& socket, const char* bytes, std::size_t count) {
  if (socket.error != 0) return -std::exchange(socket.error, 0);
  if (socket.state == Socket::State::connecting) return -EAGAIN;
  if (socket.state != Socket::State::connected || socket.cannot_send) return -EPIPE;
  Stream& out = socket.connection->stream[socket.end];
  const std::size_t space = kBuffer - std::min(kBuffer, out.unacknowledged.size());
  if (space == 0) return -EAGAIN;
  // Sometimes less than there is room for.
  std::size_t taken = std::min(count, space);
  if (taken > 1 && kernel_.random().chance(0.02))
    taken = static_cast<std::size_t>(kernel_.random().pick(1, static_cast<Time>(taken)));
  out.unacknowledged.append(bytes, taken);
  transmit(socket.connection, socket.end);
  return static_cast<long>(taken);
}

long Network::receive(Socket& socket, char* bytes, std::size_t count, bool peek) {
  if (socket.state == Socket::State::connected || socket.state == Socket::State::broken) {
    Stream& in = socket.connection->stream[1 - socket.end];
    if (in.unread() > 0) {
      std::size_t taken = std::min(count, in.unread());
      if (taken > 1 && kernel_.random().chance(0.02))
        taken = static_cast<std::size_t>(kernel_.random().pick(1, static_cast<Time>(taken)));
      std::memcpy(bytes, in.inbox.data() + in.taken, taken);
      if (peek) return static_cast<long>(taken);
      const bool was_full = in.unread() >= kBuffer;
      in.taken += taken;
      if (in.taken == in.inbox.size()) {
        in.inbox.clear();
        in.taken = 0;
      }
      if (was_full && socket.state == Socket::State::connected) acknowledge(socket.connection, 1 - socket.end);
      return static_cast<long>(taken);
    }
    if (socket.error != 0) return -std::exchange(socket.error, 0);
    if (in.ended || socket.state == Socket::State::broken) return 0;
    return -EAGAIN;
  }
  if (socket.error != 0) return -std::exchange(socket.error, 0);
  return socket.state == Socket::State::connecting ? -EAGAIN : -ENOTCONN;
}

void Network::shut_down_sending(Socket& socket) {
  if (socket.state != Socket::State::connected || socket.cannot_send) return;
  socket.cannot_send = true;
  socket.connection->stream[socket.end].ends = true;
  transmit(socket.connection, socket.end);
}

// Sends what is new. The end of the stream counts as one more byte.
void Network::transmit(const Link& connection, int end) {
  Stream& out = connection->stream[end];
  if (!connection->exists[end] || out.window_closed) return;
  const std::uint64_t all = out.total() + (out.ends ? 1 : 0);
  if (out.sent >= all) return;
  const std::uint64_t from = out.sent;
  out.sent = all;
  if (out.silent_since == kForever) out.silent_since = kernel_.now();
  const Address& here = connection->address[end];
  const Address& there = connection->address[1 - end];
  out.arrives = std::max(out.arrives + 1, kernel_.now() + latency(here, there, all - from));
  kernel_.at(out.arrives, [this, connection, end, from, to = all] {
    if (passes(connection->address[end], connection->address[1 - end]))
      arrives(connection, end, from, to, connection->stream[end].ends);
    else
      ++counts_.lost;
  });
  if (out.pause == 0) {
    out.pause = kFirstRetransmission;
    start_timer(connection, end);
  }
}

void Network::start_timer(const Link& connection, int end) {
  Stream& out = connection->stream[end];
  const std::uint64_t number = ++out.timer;
  kernel_.after(out.pause, [this, connection, end, number] { timer_fires(connection, end, number); });
}

void Network::timer_fires(const Link& connection, int end, std::uint64_t number) {
  Stream& out = connection->stream[end];
  if (out.timer != number || !connection->exists[end]) return;
  const bool idle = out.unacknowledged.empty() && (!out.ends || out.end_acknowledged);
  if (idle) {
    out.pause = 0;
    return;
  }
  const Socket* const socket = connection->socket[end];
  if (socket != nullptr && socket->user_timeout > 0 && out.silent_since != kForever &&
      kernel_.now() - out.silent_since >= socket->user_timeout) {
    ++counts_.timeouts;
    return reset_arrives(connection, end, ETIMEDOUT);
  }
  // An end that was closed does not try for ever.
  if (socket == nullptr && kernel_.now() - out.silent_since > 60 * kSecond) {
    connection->exists[end] = false;
    return;
  }
  if (out.window_closed) {
    ++out.probes;
    kernel_.after(latency(connection->address[end], connection->address[1 - end], 64), [this, connection, end] {
      if (passes(connection->address[end], connection->address[1 - end])) acknowledge(connection, end);
    });
  } else {
    out.sent = out.acknowledged;
    transmit(connection, end);
  }
  out.pause = std::min(2 * out.pause, kLongestPause);
  start_timer(connection, end);
}

void Network::arrives(const Link& connection, int end, std::uint64_t from, std::uint64_t to, bool last) {
  const int there = 1 - end;
  if (!connection->exists[there]) return send_reset(connection, there);
  Stream& out = connection->stream[end];
  Socket* const receiver = connection->socket[there];
  const bool is_accepted = receiver != nullptr;
  const bool is_closed = !is_accepted && connection->stream[there].ends;
  if (is_closed && std::min(to, out.total()) > out.received) {  // nobody will ever read it
    connection->exists[there] = false;
    return send_reset(connection, there);
  }
  if (is_accepted) receiver->heard = kernel_.now();
  if (from <= out.received && out.received < to && out.received >= out.acknowledged) {
    const std::uint64_t data_to = std::min(to, out.total());
    if (out.received < data_to) {
      const std::size_t space = kBuffer - std::min(kBuffer, out.unread());
      const std::size_t taken = std::min<std::size_t>(space, data_to - out.received);
      out.inbox.append(out.unacknowledged, out.received - out.acknowledged, taken);
      out.received += taken;
    }
    if (last && out.received == out.total() && to == out.total() + 1) out.ended = true;
    if (is_accepted) kernel_.notify(*receiver);
  }
  acknowledge(connection, end);
}

// The receiver of the stream from `end` tells how far it has come.
void Network::acknowledge(const Link& connection, int end) {
  const int there = 1 - end;
  if (!connection->exists[there]) return send_reset(connection, there);
  const Stream& out = connection->stream[end];
  const bool closed = out.unread() >= kBuffer;
  kernel_.after(latency(connection->address[there], connection->address[end], 64),
                [this, connection, end, there, up_to = out.received, last = out.ended, closed] {
                  if (passes(connection->address[there], connection->address[end]))
                    acknowledged(connection, end, up_to, last, closed);
                });
}

void Network::acknowledged(const Link& connection, int end, std::uint64_t up_to, bool last, bool closed) {
  if (!connection->exists[end]) return;
  Stream& out = connection->stream[end];
  Socket* const socket = connection->socket[end];
  if (socket != nullptr) {
    socket->heard = kernel_.now();
    socket->unanswered = 0;
  }
  out.probes = 0;
  const bool moved = up_to > out.acknowledged || (last && !out.end_acknowledged);
  if (up_to > out.acknowledged) {
    out.unacknowledged.erase(0, up_to - out.acknowledged);
    out.acknowledged = up_to;
    out.sent = std::max(out.sent, up_to);
  }
  if (last) out.end_acknowledged = true;
  const bool reopened = out.window_closed && !closed && up_to >= out.acknowledged;
  if (up_to >= out.acknowledged) out.window_closed = closed;
  const bool settled = out.unacknowledged.empty() && (!out.ends || out.end_acknowledged);
  if (settled) {
    out.silent_since = kForever;
    out.pause = 0;
    ++out.timer;
  } else if (moved || closed) {
    out.silent_since = kernel_.now();
    out.pause = kFirstRetransmission;
    start_timer(connection, end);
  }
  if (reopened || (moved && !closed && out.sent > out.acknowledged && out.sent > out.received)) {
    if (reopened) out.sent = out.acknowledged;
    transmit(connection, end);
  }
  if (moved && socket != nullptr) kernel_.notify(*socket);
  if (settled && socket == nullptr && out.ends) connection->exists[end] = false;
}

/// The end, which does not know the connection (any more), says so.
void Network::send_reset(const Link& connection, int end) {
  const int there = 1 - end;
  kernel_.after(latency(connection->address[end], connection->address[there], 64), [this, connection, end, there] {
    if (passes(connection->address[end], connection->address[there])) reset_arrives(connection, there, ECONNRESET);
  });
}

void Network::reset_arrives(const Link& connection, int end, int error) {
  if (!connection->exists[end]) return;
  connection->exists[end] = false;
  ++counts_.resets;
  Socket* const socket = connection->socket[end];
  if (socket == nullptr) return;
  socket->state = Socket::State::broken;
  socket->error = error;
  kernel_.notify(*socket);
}

void Network::watch_keepalive(const std::shared_ptr<Socket>& socket) {
  socket->heard = kernel_.now();
  kernel_.after(socket->keep_idle, [this, weak = std::weak_ptr(socket)] { keep_alive(weak); });
}

void Network::keep_alive(const std::weak_ptr<Socket>& weak) {
  const auto socket = weak.lock();
  if (!socket || socket->state != Socket::State::connected) return;
  const Time idle = kernel_.now() - socket->heard;
  const Link connection = socket->connection;
  if (idle < socket->keep_idle) {
    socket->unanswered = 0;
    kernel_.after(socket->keep_idle - idle, [this, weak] { keep_alive(weak); });
    return;
  }
  const int end = socket->end;
  if (!connection->stream[end].unacknowledged.empty()) {  // retransmission watches then
    kernel_.after(socket->keep_interval, [this, weak] { keep_alive(weak); });
    return;
  }
  if (socket->unanswered >= socket->keep_probes) {
    ++counts_.timeouts;
    return reset_arrives(connection, end, ETIMEDOUT);
  }
  ++socket->unanswered;
  kernel_.after(latency(connection->address[end], connection->address[1 - end], 64), [this, connection, end] {
    if (passes(connection->address[end], connection->address[1 - end])) acknowledge(connection, end);
  });
  kernel_.after(socket->keep_interval, [this, weak] { keep_alive(weak); });
}

void Network::close(Socket& socket) {
  if (socket.state == Socket::State::listening) {
    if (socket.domain == AF_UNIX)
      local_listeners_.erase(socket.address.path);
    else if (const auto at = listeners_.find({socket.address.host, socket.address.port});
             at != listeners_.end() && at->second == &socket)
      listeners_.erase(at);
    for (const Link& each : socket.waiting) {
      each->exists[1] = false;
      send_reset(each, 1);
    }
    socket.waiting.clear();
    return;
  }
  const Link connection = socket.connection;
  if (!connection) return;
  connection->socket[socket.end] = nullptr;
  if (!connection->exists[socket.end]) return;
  const Stream& in = connection->stream[1 - socket.end];
  if (!connection->made || socket.resets || in.unread() > 0) {
    connection->exists[socket.end] = false;
    if (connection->exists[1 - socket.end]) send_reset(connection, socket.end);
    return;
  }
  connection->stream[socket.end].ends = true;
  transmit(connection, socket.end);
}

void Network::fill(const Socket& socket, tcp_info& info) const {
  std::memset(&info, 0, sizeof info);
  constexpr std::uint8_t kEstablished = 1;
  constexpr std::uint8_t kClose = 7;
  constexpr std::uint8_t kCloseWait = 8;
  if (!socket.connection) return;
  const Stream& out = socket.connection->stream[socket.end];
  const Stream& in = socket.connection->stream[1 - socket.end];
  info.tcpi_state = socket.state != Socket::State::connected ? kClose : in.ended ? kCloseWait : kEstablished;
  info.tcpi_unacked = out.window_closed || out.sent <= out.acknowledged ? 0 : 1;
  info.tcpi_probes = static_cast<std::uint8_t>(std::min(out.probes, 100));
  info.tcpi_notsent_bytes = out.window_closed ? static_cast<std::uint32_t>(out.unacknowledged.size()) : 0;
  info.tcpi_bytes_acked = out.acknowledged;
  info.tcpi_delivered = static_cast<std::uint32_t>(out.acknowledged);
  info.tcpi_rtt = static_cast<std::uint32_t>(2 * base_latency_ / kMicrosecond);
}

}  // namespace tutti::simulated
