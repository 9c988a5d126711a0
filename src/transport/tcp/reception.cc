#include "transport/tcp/reception.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/thread.hpp"

namespace tutti {
namespace {

constexpr double kDrivenTick = 0.01;  // seconds between looks whether callers still drive
constexpr double kDetour = 1.0;       // seconds for a lane by way of a neighbour to be welcomed
// Connections that have not proven themselves: at most so many, and a share of the descriptors there may be.
constexpr std::size_t kStrangers = 256;
constexpr std::size_t kLeastStrangers = 16;
constexpr rlim_t kShareOfDescriptors = 8;
constexpr int kAcceptsPerTurn = 64;
// Ids in the control epoll; attempts have those below, listeners those from kListeners on.
constexpr std::uint64_t kListeners = std::uint64_t{1} << 32;
constexpr std::uint64_t kDoorbell = std::uint64_t{1} << 33;
constexpr std::uint64_t kPorts = kDoorbell + 1;
constexpr std::uint64_t kRelays = std::uint64_t{1} << 34;  // two for each relay: its sides

void add_to(int epoll, int descriptor, std::uint64_t id, std::uint32_t events, int operation = EPOLL_CTL_ADD) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  ::epoll_ctl(epoll, operation, descriptor, &event);
}

std::size_t strangers_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kStrangers;
  return std::clamp<std::size_t>(limit.rlim_cur / kShareOfDescriptors, kLeastStrangers, kStrangers);
}

}  // namespace

Reception::Reception(Host& host, const JobKey& key, const ProcessId& own, std::vector<Fd> listeners, int data,
                     int ports, std::shared_ptr<NextLook> next_look, Options options)
    : host_(host),
      key_(key),
      own_(own),
      data_(data),
      options_(options),
      control_(::epoll_create1(EPOLL_CLOEXEC)),
      next_look_(std::move(next_look)),
      strangers_limit_(strangers_limit()) {
  add_to(control_.get(), next_look_->descriptor(), kDoorbell, EPOLLIN);
  if (ports >= 0) add_to(control_.get(), ports, kPorts, EPOLLIN);
  for (Fd& each : listeners) listen(std::move(each));
}

Status Reception::start() {
  auto thread = start_thread("tutti-tcp", [this] { run(); });
  if (!thread) return tl::unexpected(thread.error());
  thread_ = std::move(*thread);
  return {};
}

void Reception::listen(Fd listener) {
  add_to(control_.get(), listener.get(), kListeners + listeners_.size(), EPOLLIN);
  listeners_.push_back(std::move(listener));
}

void Reception::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  next_look_->ring();
  thread_.join();
}

void Reception::abandon_thread() {
  if (thread_.joinable()) thread_.detach();
}

void Reception::run() {
  while (!stopping_.load(std::memory_order_acquire)) {
    next_look_->begin();
    const bool driven = host_.is_driven();
    const double next_tick = host_.tick();
    pollfd entries[2] = {{control_.get(), POLLIN, 0}, {data_, POLLIN, 0}};
    ::poll(entries, driven ? 1 : 2, sleep_milliseconds(driven, next_tick));
    if (entries[0].revents != 0) handle_control_events();
    check_deadlines();
    if (!driven && entries[1].revents != 0 && !host_.is_driven()) host_.drive();
  }
}

int Reception::sleep_milliseconds(bool driven, double next_tick) {
  const double now = steady_seconds();
  Deadline deadline = listen_again_at_;
  for (const auto& [id, pending] : pending_) deadline = Deadline::earlier(deadline, pending.attempt.deadline());
  double next = next_tick;
  if (!deadline.is_never()) next = std::min(next, now + deadline.seconds_left());
  if (driven) next = std::min(next, now + kDrivenTick);
  next = next_look_->plan(next);
  return next == kNever ? -1 : Deadline::in(std::max(next - now, 0.0)).poll_milliseconds();
}

void Reception::handle_control_events() {
  epoll_event events[64];
  const int ready = ::epoll_wait(control_.get(), events, 64, 0);
  for (int i = 0; i < ready; ++i) {
    const std::uint64_t id = events[i].data.u64;
    if (id == kDoorbell)
      next_look_->silence();
    else if (id == kPorts)
      host_.on_ports_changed();
    else if (id >= kRelays)
      advance_relay((id - kRelays) / 2);
    else if (id >= kListeners)
      accept_some(id - kListeners);
    else
      advance(id);
  }
}

// Those that are left wait for the next turn: others want to get on, too.
void Reception::accept_some(std::size_t listener) {
  for (int taken = 0; taken < kAcceptsPerTurn; ++taken) {
    auto accepted = accept_one(listeners_[listener].get());
    if (!accepted) {
      // Out of descriptors, most likely: the listener stays readable, so look away for a while.
      warn(accepted.error().message);
      for (const Fd& each : listeners_) add_to(control_.get(), each.get(), 0, 0, EPOLL_CTL_DEL);
      listen_again_at_ = Deadline::in(0.1);
      return;
    }
    if (!*accepted) return;
    Accepted& connection = **accepted;
    make_room_for_stranger();
    // By the door come processes of this host.
    const SocketAddress from = connection.peer.family() == AF_UNIX ? SocketAddress::loopback() : connection.peer;
    add(Attempt::accepted(std::move(connection.connection), from, key_, own_, Deadline::in(options_.greeting_timeout),
                          [this](const LaneGreeting& hello) { return host_.judge(hello); }),
        nullptr);
  }
}

bool Reception::is_stranger(const Pending& pending) {
  return !pending.dial && !pending.passage && !pending.attempt.is_proven();
}

// Peers prove themselves at once; of those who do not, the oldest has had the most time.
void Reception::make_room_for_stranger() {
  if (pending_.size() < strangers_limit_) return;
  std::size_t strangers = 0;
  std::optional<std::uint64_t> oldest;
  for (const auto& [id, pending] : pending_) {
    if (!is_stranger(pending)) continue;
    if (!oldest) oldest = id;
    ++strangers;
  }
  if (strangers < strangers_limit_) return;
  give_up(*oldest, fail(ErrorCode::refused, "too many connections that do not prove themselves").value());
}

void Reception::listen_again() {
  listen_again_at_ = Deadline::never();
  for (std::size_t i = 0; i < listeners_.size(); ++i)
    add_to(control_.get(), listeners_[i].get(), kListeners + i, EPOLLIN);
}

void Reception::dial(const Dial& dial) {
  // A detour that leads nowhere must not keep from the next.
  const double greeting = dial.lane.relayed ? std::min(kDetour, options_.greeting_timeout) : options_.greeting_timeout;
  const double answer = dial.lane.was_up ? options_.answer_timeout : greeting;
  auto attempt = Attempt::dialing(dial, key_, own_, answer, greeting);
  if (!attempt) return host_.on_dial_failed(dial, attempt.error(), DialFailure::passing);
  add(std::move(*attempt), std::make_unique<Dial>(dial));
}

void Reception::add(Attempt attempt, std::unique_ptr<Dial> dial, std::unique_ptr<Passage> passage) {
  const std::uint64_t id = next_id_++ % kListeners;
  Pending& pending =
      pending_.emplace(id, Pending{std::move(attempt), std::move(dial), std::move(passage)}).first->second;
  watch(id, pending, EPOLL_CTL_ADD);
  advance(id);
}

void Reception::watch(std::uint64_t id, Pending& pending, int operation) {
  const short wanted = pending.attempt.events();
  if (operation == EPOLL_CTL_MOD && wanted == pending.watched) return;
  pending.watched = wanted;
  // POLLIN and POLLOUT are EPOLLIN and EPOLLOUT.
  add_to(control_.get(), pending.attempt.descriptor(), id, static_cast<std::uint32_t>(wanted), operation);
}

void Reception::advance(std::uint64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  const auto done = found->second.attempt.advance();
  if (!done) return give_up(id, done.error());
  if (*done) return finish(id);
  watch(id, found->second, EPOLL_CTL_MOD);
}

void Reception::finish(std::uint64_t id) {
  auto node = pending_.extract(id);
  Pending& pending = node.mapped();
  ::epoll_ctl(control_.get(), EPOLL_CTL_DEL, pending.attempt.descriptor(), nullptr);
  if (pending.dial)
    host_.on_dialed(pending.attempt.take(), *pending.dial);
  else if (pending.passage)
    join(std::move(pending.passage->socket), pending.attempt.take());
  else if (pending.attempt.verdict() == Attempt::Verdict::pass_on)
    pass_on(std::make_unique<Passage>(
        Passage{pending.attempt.take(), pending.attempt.greeting(), host_.routes_to(pending.attempt.greeting().to)}));
  else if (pending.attempt.verdict() == Attempt::Verdict::welcome)
    host_.on_accepted(pending.attempt.take(), pending.attempt.greeting());
}

// One way after the other; where none leads there, the connection ends, and whoever dialed tries again.
void Reception::pass_on(std::unique_ptr<Passage> passage) {
  while (passage->tried < passage->routes.size()) {
    const Rail& rail = passage->routes[passage->tried++];
    auto attempt = Attempt::forwarding(rail, passage->hello, key_, own_, options_.answer_timeout,
                                       std::min(kDetour, options_.greeting_timeout));
    if (attempt) return add(std::move(*attempt), nullptr, std::move(passage));
  }
}

void Reception::join(Fd one, Fd other) {
  const std::uint64_t number = next_id_++ % kListeners;
  Passing& passing = relays_.emplace(number, Passing{Relay(std::move(one), std::move(other)), {}}).first->second;
  for (int side = 0; side < 2; ++side)
    add_to(control_.get(), passing.relay.descriptor(side), kRelays + 2 * number + static_cast<unsigned>(side), 0);
  advance_relay(number);
}

void Reception::advance_relay(std::uint64_t number) {
  const auto found = relays_.find(number);
  if (found == relays_.end()) return;
  Passing& passing = found->second;
  if (!passing.relay.advance()) {
    relays_.erase(found);
    return;
  }
  for (unsigned side = 0; side < 2; ++side) {
    const std::uint32_t wanted = passing.relay.events(static_cast<int>(side));
    if (std::exchange(passing.watched[side], wanted) == wanted) continue;
    add_to(control_.get(), passing.relay.descriptor(static_cast<int>(side)), kRelays + 2 * number + side, wanted,
           EPOLL_CTL_MOD);
  }
}

void Reception::give_up(std::uint64_t id, const Error& why) {
  auto node = pending_.extract(id);
  Pending& pending = node.mapped();
  const DialFailure kind = pending.attempt.failure();
  const SocketAddress address = pending.attempt.address();
  const bool said_nothing = why.code == ErrorCode::system && pending.attempt.said_nothing();
  { const Fd closed = pending.attempt.take(); }
  if (pending.passage) return pass_on(std::move(pending.passage));
  // Whoever looks whether there is a way ends the connection without a word.
  if (!pending.dial && said_nothing) return;
  if (!pending.dial) return turn_away(address, why);
  host_.on_dial_failed(*pending.dial, why, kind);
}

void Reception::turn_away(const SocketAddress& who, const Error& why) {
  host_.on_stranger();
  warn(fmt::format("dropped a connection from {}: {}", who.to_string(), why.message));
}

void Reception::check_deadlines() {
  if (listen_again_at_.passed()) listen_again();
  std::vector<std::uint64_t> late;
  for (const auto& [id, pending] : pending_)
    if (pending.attempt.deadline().passed()) late.push_back(id);
  for (const std::uint64_t id : late) give_up(id, pending_.at(id).attempt.late());
}

}  // namespace tutti
