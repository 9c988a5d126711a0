#include "agent/event_forwarder.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <array>
#include <limits>

namespace tutti::agent {
namespace {

constexpr double kResolveWithin = 0.5;  // seconds; a name server that hangs holds up scrapes for no longer
constexpr double kConnectWithin = 5;
constexpr double kSilence = 15;  // until a receiver whose host says nothing counts as gone
constexpr double kSettled = 5;   // a connection that lasted so long was a good one

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

double EventForwarder::due() const {
  switch (state_) {
    case State::apart:
      return retry_;
    case State::connecting:
      return give_up_;
    case State::connected:
      break;
  }
  return std::numeric_limits<double>::infinity();
}

short EventForwarder::events() const {
  const bool has_something_to_write = state_ == State::connecting || !outbox_.is_empty();
  return static_cast<short>(POLLIN | (has_something_to_write ? POLLOUT : 0));
}

void EventForwarder::work(double now) {
  Status worked;
  if (state_ == State::apart && now >= retry_) worked = connect(now);
  if (worked && state_ == State::connecting) worked = now < give_up_ ? finish() : fail(ErrorCode::timed_out, "silence");
  if (worked && state_ == State::connected) worked = exchange(now);
  if (!worked) fail_at(now, worked.error().message);
}

Result<std::vector<SocketAddress>> EventForwarder::resolve_soon(const HostPort& where) {
  return resolve(where.host, where.port, Deadline::in(kResolveWithin));
}

Status EventForwarder::connect(double now) {
  if (untried_.empty()) {
    auto addresses = resolver_(where_);
    if (!addresses) return tl::unexpected(addresses.error());
    if (addresses->empty()) return fail(ErrorCode::system, "the name has no address");
    untried_ = std::move(*addresses);
  }
  const SocketAddress address = untried_.front();
  untried_.erase(untried_.begin());
  Result<Fd> started = start_connect(address);
  if (!started) return tl::unexpected(started.error());
  connection_ = std::move(*started);
  state_ = State::connecting;
  give_up_ = now + kConnectWithin;
  connected_ = now;
  return {};
}

Status EventForwarder::finish() {
  pollfd entry{connection_.get(), POLLOUT, 0};
  if (::poll(&entry, 1, 0) != 1) return {};
  if (Status connected = finish_connect(connection_.get()); !connected) return connected;
  state_ = State::connected;
  untried_.clear();  // a name may mean another host next time
  outbox_.restart();
  return watch_silence(connection_.get(), kSilence);
}

Status EventForwarder::exchange(double now) {
  // It has nothing to tell us, but that is how its end is seen.
  std::array<std::byte, 512> ignored{};
  if (const auto heard = recv_some(connection_.get(), ignored); !heard) return tl::unexpected(heard.error());
  for (std::string_view batch = outbox_.batch(); !batch.empty(); batch = outbox_.batch()) {
    const auto sent = send_some(connection_.get(), bytes_of(batch));
    if (!sent) return tl::unexpected(sent.error());
    if (*sent == 0) break;
    outbox_.wrote(*sent);
  }
  if (now > connected_ + kSettled) backoff_.reset();
  return {};
}

void EventForwarder::fail_at(double now, const std::string& why) {
  connection_.reset();
  state_ = State::apart;
  if (!untried_.empty()) {
    retry_ = now;  // its next address, at once
    return;
  }
  retry_ = now + backoff_.next();
  log_.warn(fmt::format("{}:{} takes no events, tried again with growing pauses: {}", where_.host, where_.port, why),
            now);
}

}  // namespace tutti::agent
