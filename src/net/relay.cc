#include "net/relay.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

namespace tutti {
namespace {

constexpr int kTurns = 16;
constexpr unsigned kUnanswered = 1000;  // milliseconds until what was sent and not acknowledged ends a connection

bool is_over(ssize_t result) {
  return result == 0 || (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace

Relay::Relay(Fd one, Fd other) : sockets_{std::move(one), std::move(other)} {
  // Nobody looks after a path that goes silent but the kernel. One of the two is no TCP, and does not mind.
  for (const Fd& each : sockets_)
    ::setsockopt(each.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnanswered, sizeof kUnanswered);
}

std::uint32_t Relay::events(int side) const {
  const Stream& in = streams_[side];
  const Stream& out = streams_[1 - side];
  return (in.end < kBuffer ? std::uint32_t{EPOLLIN} : 0) | (out.begin < out.end ? std::uint32_t{EPOLLOUT} : 0);
}

// Not for longer than others can wait: what is left is ready the next time.
bool Relay::advance() {
  bool moved = true;
  for (int turns = 0; moved && turns < kTurns; ++turns) {
    moved = false;
    if (!move(0, moved) || !move(1, moved)) return false;
  }
  return true;
}

bool Relay::move(int from, bool& moved) {
  Stream& stream = streams_[from];
  if (stream.end < kBuffer) {
    const ssize_t got =
        ::recv(sockets_[from].get(), stream.bytes.get() + stream.end, kBuffer - stream.end, MSG_DONTWAIT);
    if (is_over(got)) return false;
    if (got > 0) stream.end += static_cast<std::size_t>(got);
    moved = moved || got > 0;
  }
  if (stream.begin == stream.end) return true;
  const ssize_t put = ::send(sockets_[1 - from].get(), stream.bytes.get() + stream.begin, stream.end - stream.begin,
                             MSG_DONTWAIT | MSG_NOSIGNAL);
  if (is_over(put)) return false;
  if (put > 0) stream.begin += static_cast<std::size_t>(put);
  moved = moved || put > 0;
  if (stream.begin == stream.end) stream.begin = stream.end = 0;
  return true;
}

}  // namespace tutti
