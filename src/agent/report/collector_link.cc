#include "agent/report/collector_link.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>

#include <limits>

#include "net/route.hpp"

namespace tutti::agent {
namespace {

constexpr double kResolveWithin = 0.5;  // seconds; a name server that hangs holds up the owner for no longer
constexpr double kConnectWithin = 4;
constexpr double kSilence = 5;  // until a collector whose host says nothing counts as gone
constexpr double kSettled = 5;  // a connection that lasted so long was a good one

}  // namespace

JobKey key_of_token(const std::string& token, bool insecure) { return JobKey(token, "tutti collector", insecure); }

double CollectorLink::due() const {
  if (stream_) return std::numeric_limits<double>::infinity();
  return pending_ ? give_up_ : retry_;
}

int CollectorLink::descriptor() const {
  if (stream_) return stream_->descriptor();
  return pending_ ? pending_->descriptor() : -1;
}

short CollectorLink::events() const {
  if (stream_) return static_cast<short>(POLLIN | (stream_->has_backlog() ? POLLOUT : 0));
  // EPOLLIN and EPOLLOUT are POLLIN and POLLOUT.
  return pending_ ? static_cast<short>(pending_->events() & (EPOLLIN | EPOLLOUT)) : short{0};
}

void CollectorLink::push(FrameKind kind, std::string_view payload) {
  if (stream_) stream_->push(kind, payload);
}

void CollectorLink::work(double now) {
  Status worked;
  if (!stream_ && !pending_ && now >= retry_) worked = dial(now);
  if (worked && pending_) worked = advance(now);
  if (worked && stream_) {
    worked = stream_->receive(take_);
    if (worked) worked = stream_->flush();
    if (now > connected_ + kSettled) backoff_.reset();
  }
  if (!worked) fail_at(now, worked.error());
}

Status CollectorLink::dial(double now) {
  if (untried_.empty()) {
    auto addresses = resolve(where_.host, where_.port, Deadline::in(kResolveWithin));
    if (!addresses) return tl::unexpected(addresses.error());
    if (addresses->empty()) return fail(ErrorCode::system, "the name has no address");
    untried_ = std::move(*addresses);
  }
  const SocketAddress address = untried_.front();
  untried_.erase(untried_.begin());
  auto dialed = PendingConnection::dial(kernel_sockets(), Route::to(address), Purpose::report, key_, hello_);
  if (!dialed) return tl::unexpected(dialed.error());
  pending_.emplace(std::move(*dialed));
  give_up_ = now + kConnectWithin;
  return {};
}

Status CollectorLink::advance(double now) {
  const auto stage = pending_->advance();
  if (!stage) return tl::unexpected(stage.error());
  if (*stage != PendingConnection::Stage::done) return now < give_up_ ? Status{} : tl::unexpected(pending_->late());
  stream_.emplace(pending_->take(), most_bytes_);
  pending_.reset();
  untried_.clear();  // a name may mean another host next time
  ++connections_;
  connected_ = now;
  return watch_silence(stream_->descriptor(), kSilence);
}

void CollectorLink::fail_at(double now, const Error& why) {
  pending_.reset();
  stream_.reset();
  if (!untried_.empty()) {
    retry_ = now;  // its next address, at once
    return;
  }
  failure_ = why;
  ++failures_;
  retry_ = now + backoff_.next();
}

}  // namespace tutti::agent
