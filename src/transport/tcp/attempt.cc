#include "transport/tcp/attempt.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "net/local_listener.hpp"

namespace tutti {

Attempt::Attempt(Fd socket, const SocketAddress& address, Side side, const JobKey& key, const ProcessId& own,
                 Deadline deadline)
    : socket_(std::move(socket)),
      address_(address),
      side_(side),
      handshake_(side, Purpose::data, key, address),
      own_(own),
      deadline_(deadline),
      stage_(side == Side::connector ? Stage::connecting : Stage::proving) {}

Attempt Attempt::accepted(Fd socket, const SocketAddress& from, const JobKey& key, const ProcessId& own,
                          Deadline deadline, Judge judge) {
  Attempt attempt(std::move(socket), from, Side::acceptor, key, own, deadline);
  attempt.judge_ = std::move(judge);
  return attempt;
}

Result<Attempt> Attempt::connecting(const Rail& rail, const JobKey& key, const ProcessId& own, double answer,
                                    double greeting) {
  const bool by_door = !rail.door.empty();
  auto socket = by_door ? connect_local(rail.door) : start_connect(rail.remote, rail.source ? &*rail.source : nullptr);
  if (!socket) return tl::unexpected(socket.error());
  const SocketAddress address = by_door ? SocketAddress::loopback() : rail.remote;
  Attempt attempt(std::move(*socket), address, Side::connector, key, own, Deadline::in(by_door ? greeting : answer));
  attempt.greeting_seconds_ = greeting;
  if (by_door) attempt.stage_ = Stage::proving;
  return attempt;
}

Result<Attempt> Attempt::dialing(const Dial& dial, const JobKey& key, const ProcessId& own, double answer,
                                 double greeting) {
  auto attempt = connecting(dial.rail, key, own, answer, greeting);
  if (attempt) attempt->dial_ = dial;
  return attempt;
}

Result<Attempt> Attempt::forwarding(const Rail& rail, const LaneGreeting& hello, const JobKey& key,
                                    const ProcessId& own, double answer, double greeting) {
  auto attempt = connecting(rail, key, own, answer, greeting);
  if (!attempt) return attempt;
  attempt->forwards_ = true;
  attempt->greeting_ = hello;
  return attempt;
}

Error Attempt::late() const {
  if (stage_ == Stage::connecting)
    return fail(ErrorCode::timed_out, fmt::format("connecting to {}: no answer", address_.to_string())).value();
  if (stage_ == Stage::proving) return handshake_.late();
  return fail(ErrorCode::timed_out, fmt::format("{} did not greet", address_.to_string())).value();
}

short Attempt::events() const {
  if (stage_ == Stage::connecting || stage_ == Stage::speaking) return POLLOUT;
  return stage_ == Stage::proving ? handshake_.events() : POLLIN;
}

Result<bool> Attempt::advance() {
  while (stage_ != Stage::done) {
    auto moved = step();
    if (!moved || !*moved) return moved;
  }
  return true;
}

// True: on to the next stage.
Result<bool> Attempt::step() {
  switch (stage_) {
    case Stage::connecting:
      return connect();
    case Stage::proving:
      return prove();
    case Stage::speaking:
      return speak();
    case Stage::listening:
      return listen();
    case Stage::done:
      break;
  }
  return true;
}

Result<bool> Attempt::connect() {
  pollfd entry{socket_.get(), POLLOUT, 0};
  if (::poll(&entry, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t bytes = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error == ECONNREFUSED) failure_ = DialFailure::absent;
  if (error != 0)
    return fail(ErrorCode::system, fmt::format("connecting to {}: {}", address_.to_string(), std::strerror(error)));
  if (auto finished = finish_connect(socket_.get()); !finished) {
    failure_ = DialFailure::absent;
    return tl::unexpected(finished.error());
  }
  deadline_ = Deadline::in(greeting_seconds_);
  stage_ = Stage::proving;
  return true;
}

Result<bool> Attempt::prove() {
  auto proven = handshake_.advance(socket_.get());
  if (!proven && handshake_.rejected()) failure_ = DialFailure::absent;
  if (!proven || !*proven) return proven;
  if (dial_) bytes_ = encode(LaneGreeting{FrameType::hello, dial_->lane.epoch, dial_->lane.index, own_, dial_->peer});
  if (forwards_) bytes_ = encode(greeting_);
  stage_ = side_ == Side::connector ? Stage::speaking : Stage::listening;
  return true;
}

Result<bool> Attempt::speak() {
  auto sent = send_some(socket_.get(), std::span(bytes_).subspan(moved_));
  if (!sent) return tl::unexpected(sent.error());
  moved_ += *sent;
  if (moved_ != bytes_.size()) return false;
  moved_ = 0;
  stage_ = dial_ ? Stage::listening : Stage::done;
  return true;
}

Result<bool> Attempt::listen() {
  auto received = recv_some(socket_.get(), std::span(bytes_).subspan(moved_));
  if (!received) return tl::unexpected(received.error());
  moved_ += *received;
  if (moved_ != bytes_.size()) return false;
  moved_ = 0;
  if (auto fine = check_greeting(); !fine) return tl::unexpected(fine.error());
  const bool answers = side_ == Side::acceptor && verdict_ != Verdict::pass_on;
  const auto type = verdict_ == Verdict::gone ? FrameType::never : FrameType::welcome;
  if (answers) bytes_ = encode(LaneGreeting{type, greeting_.epoch, greeting_.lane, own_, greeting_.from});
  stage_ = answers ? Stage::speaking : Stage::done;
  return true;
}

Status Attempt::check_greeting() {
  auto greeting = parse_greeting(bytes_);
  if (!greeting) return tl::unexpected(greeting.error());
  greeting_ = *greeting;
  const std::string who = address_.to_string();
  failure_ = DialFailure::absent;  // unless all is well
  if (side_ == Side::acceptor) verdict_ = judge_(greeting_);
  if (side_ == Side::acceptor ? verdict_ == Verdict::refuse : greeting_.to != own_)
    return fail(ErrorCode::refused,
                fmt::format("{} looks for process {}, which is not here", who, greeting_.to.to_string()));
  const bool is_peer = dial_ && greeting_.from == dial_->peer;
  if (is_peer && greeting_.type == FrameType::never) {
    failure_ = DialFailure::final;
    return fail(ErrorCode::refused, fmt::format("{} counts this process as gone", who));
  }
  const auto wanted = side_ == Side::acceptor ? FrameType::hello : FrameType::welcome;
  if (greeting_.type != wanted) return fail(ErrorCode::refused, fmt::format("{} greeted out of turn", who));
  if (dial_ && (!is_peer || greeting_.lane != dial_->lane.index || greeting_.epoch != dial_->lane.epoch))
    return fail(ErrorCode::refused,
                fmt::format("{} is process {}, not {}", who, greeting_.from.to_string(), dial_->peer.to_string()));
  failure_ = DialFailure::passing;
  return {};
}

}  // namespace tutti
