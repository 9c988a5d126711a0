#include "transport/tcp/lane_connector.hpp"

#include <fmt/core.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/thread.hpp"

namespace tutti {
namespace {

constexpr double kDrivenTick = 0.01;  // seconds between looks whether callers still drive
constexpr double kRelayed = 1.0;      // seconds for a lane by way of a neighbour to come up
// Seconds for a host to answer that has not answered yet. The kernel would ask again less and less often, and find out
// seconds late that there is a way.
constexpr double kFirstAnswer = 1.0;

Blob bytes_of(const LaneGreeting& greeting) {
  const FrameBytes bytes = encode(greeting);
  return {bytes.begin(), bytes.end()};
}

Result<LaneGreeting> greeting_in(const Blob& bytes) {
  if (bytes.size() != kFrameHeaderBytes) return fail(ErrorCode::refused, "the greeting is damaged");
  return parse_greeting(std::span(bytes).first<kFrameHeaderBytes>());
}

}  // namespace

LaneConnector::LaneConnector(Delegate& delegate, const JobKey& key, const ProcessId& own, int data, int ports,
                             std::shared_ptr<NextLook> next_look, Options options)
    : delegate_(delegate),
      own_(own),
      data_(data),
      ports_(ports),
      options_(options),
      next_look_(std::move(next_look)),
      loop_(EventLoop::kNever, options.clock),
      connector_(loop_, {Purpose::data, key, options.greeting_timeout, kFrameHeaderBytes, options.sockets}, *this) {}

Status LaneConnector::start(std::vector<Fd> listeners) {
  if (auto opened = loop_.open(); !opened) return opened;
  const auto woken = loop_.watch(next_look_->descriptor(), EPOLLIN, [this](std::uint32_t) { next_look_->silence(); });
  if (!woken) return tl::unexpected(woken.error());
  if (ports_ >= 0) {
    const auto changed = loop_.watch(ports_, EPOLLIN, [this](std::uint32_t) { delegate_.on_ports_changed(); });
    if (!changed) return tl::unexpected(changed.error());
  }
  for (Fd& each : listeners)
    if (auto listens = connector_.listen(std::move(each)); !listens) return listens;
  auto thread = start_thread("tutti-tcp", [this] { run(); });
  if (!thread) return tl::unexpected(thread.error());
  thread_ = std::move(*thread);
  return {};
}

void LaneConnector::listen(Fd listener) {
  if (auto listens = connector_.listen(std::move(listener)); !listens)
    log::warn("a port is not listened on: {}", listens.error().message);
}

void LaneConnector::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  next_look_->ring();
  thread_.join();
}

void LaneConnector::abandon_thread() {
  if (thread_.joinable()) thread_.detach();
}

void LaneConnector::run() {
  while (!stopping_.load(std::memory_order_acquire)) {
    next_look_->begin();
    const bool is_driven = delegate_.is_driven();
    watch_data(!is_driven);
    double next = delegate_.tick();
    next = std::min(next, connector_.tick());  // after what was dialed just now
    if (is_driven) next = std::min(next, options_.clock() + kDrivenTick);
    loop_.run_once(next_look_->plan(next));
  }
}

void LaneConnector::watch_data(bool wanted) {
  if (!wanted) return loop_.unwatch(std::exchange(data_watch_, 0));
  if (data_watch_ != 0) return;
  const auto watch = loop_.watch(data_, EPOLLIN, [this](std::uint32_t) {
    if (!delegate_.is_driven()) delegate_.drive();
  });
  if (watch) data_watch_ = *watch;
}

void LaneConnector::dial(const Dial& dial) {
  // A detour that leads nowhere must not keep from the next.
  const double greeting = dial.lane.relayed ? std::min(kRelayed, options_.greeting_timeout) : options_.greeting_timeout;
  const double answer = dial.lane.was_up ? options_.answer_timeout : std::min(kFirstAnswer, greeting);
  const LaneGreeting hello{FrameType::hello, dial.lane.epoch, dial.lane.index, own_, dial.peer};
  const auto id = connector_.dial(dial.route, bytes_of(hello), {answer, greeting});
  if (!id) return delegate_.on_dial_failed(dial, id.error(), DialFailure::passing);
  dials_[*id] = dial;
}

Connector::Answer LaneConnector::greeted(Connector::Id, const Connector::Arrival& arrival) {
  const std::string who = arrival.remote.to_string();
  const auto hello = greeting_in(arrival.greeting);
  if (!hello) return Connector::Answer::drop(who + ": " + hello.error().message);
  if (hello->type != FrameType::hello) return Connector::Answer::drop(who + " greeted out of turn");
  const auto reply = [&](FrameType type) {
    return bytes_of(LaneGreeting{type, hello->epoch, hello->lane, own_, hello->from});
  };
  switch (delegate_.judge(*hello)) {
    case Reception::accept:
      return Connector::Answer::accept(reply(FrameType::welcome));
    case Reception::peer_dead:
      return Connector::Answer::refuse(reply(FrameType::never));
    case Reception::pass_on:
      return Connector::Answer::pass_on(delegate_.forward_routes(*hello, arrival.is_local));
    case Reception::refuse:
      break;
  }
  return Connector::Answer::drop(fmt::format("{} looks for process {}, which is not here", who, hello->to.to_string()));
}

void LaneConnector::accepted(Connector::Id, Fd socket, const Connector::Arrival& arrival) {
  if (const auto hello = greeting_in(arrival.greeting)) delegate_.on_accepted(std::move(socket), *hello);
}

void LaneConnector::dialed(Connector::Id id, Fd socket, const Blob& reply) {
  const Dial dial = std::move(dials_.extract(id).mapped());
  DialFailure failure = DialFailure::absent;
  if (const auto good = check_reply(dial, reply, failure); !good) {
    socket.reset();
    return delegate_.on_dial_failed(dial, good.error(), failure);
  }
  delegate_.on_dialed(std::move(socket), dial);
}

Status LaneConnector::check_reply(const Dial& dial, const Blob& reply, DialFailure& failure) const {
  const std::string who = dial.route.to_string();
  const auto greeting = greeting_in(reply);
  if (!greeting) return fail(ErrorCode::refused, who + ": " + greeting.error().message);
  const bool is_peer = greeting->from == dial.peer;
  if (is_peer && greeting->type == FrameType::never) {
    failure = DialFailure::final;
    return fail(ErrorCode::refused, fmt::format("{} counts this process as gone", who));
  }
  if (greeting->to != own_ || greeting->type != FrameType::welcome)
    return fail(ErrorCode::refused, fmt::format("{} greeted out of turn", who));
  if (!is_peer || greeting->lane != dial.lane.index || greeting->epoch != dial.lane.epoch)
    return fail(ErrorCode::refused,
                fmt::format("{} is process {}, not {}", who, greeting->from.to_string(), dial.peer.to_string()));
  return {};
}

void LaneConnector::dial_failed(Connector::Id id, const Error& why, ConnectFailure kind) {
  const Dial dial = std::move(dials_.extract(id).mapped());
  const bool is_absent = kind == ConnectFailure::nobody_listens || kind == ConnectFailure::rejected;
  delegate_.on_dial_failed(dial, why, is_absent ? DialFailure::absent : DialFailure::passing);
}

}  // namespace tutti
