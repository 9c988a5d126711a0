#include "control/switchboard.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kDescriptorPause = 0.1;
constexpr int kAcceptsPerTurn = 64;

}  // namespace

Switchboard::~Switchboard() {
  stop_listening();
  while (!connections_.empty()) close(connections_.begin()->first);
}

Result<std::vector<SocketAddress>> Switchboard::listen(const std::vector<SocketAddress>& addresses) {
  std::vector<SocketAddress> bound;
  for (const SocketAddress& address : addresses) {
    auto socket = listen_on(address);
    if (!socket) return tl::unexpected(socket.error());
    auto actual = local_address(socket->get());
    if (!actual) return tl::unexpected(actual.error());
    bound.push_back(*actual);
    listeners_.push_back({std::move(*socket), 0});
  }
  return bound;
}

Status Switchboard::start(Events events) {
  events_ = std::move(events);
  for (std::size_t at = 0; at < listeners_.size(); ++at) {
    auto watch =
        loop_.watch(listeners_[at].socket.get(), EPOLLIN, [this, at](std::uint32_t) { accept_from(listeners_[at]); });
    if (!watch) return tl::unexpected(watch.error());
    listeners_[at].watch = *watch;
  }
  return {};
}

void Switchboard::stop_listening() {
  for (Listener& listener : listeners_) {
    loop_.unwatch(listener.watch);
    listener.socket.reset();
  }
  std::vector<Id> strangers;
  for (const auto& [id, entry] : connections_)
    if (!entry->dialed && !entry->greeted) strangers.push_back(id);
  for (const Id id : strangers) close(id);
}

void Switchboard::accept_from(Listener& listener) {
  for (int taken = 0; taken < kAcceptsPerTurn; ++taken) {
    auto next = accept_one(listener.socket.get());
    if (!next) {
      warn(fmt::format("accepting control connections: {}", next.error().message));
      for (Listener& each : listeners_) loop_.change(each.watch, 0);
      listen_again_at_ = loop_.now() + kDescriptorPause;
      return;
    }
    if (!next->has_value()) return;
    make_room_for_stranger();
    if (add(ControlConnection::accepted(std::move(**next), key_), false, patience_)) ++strangers_;
  }
}

// Honest peers prove themselves at once; of those who do not, the oldest has had the most time.
void Switchboard::make_room_for_stranger() {
  if (strangers_ < kStrangers) return;
  for (const auto& [id, entry] : connections_) {
    if (entry->dialed || entry->greeted || entry->busy) continue;
    warn("too many connections that do not prove themselves; the oldest is dropped");
    return close(id);
  }
}

Result<Switchboard::Id> Switchboard::dial(const ControlWay& way, const Greeting& greeting, double seconds) {
  auto connection = ControlConnection::dial(way, key_, greeting);
  if (!connection) return tl::unexpected(connection.error());
  return add(std::move(*connection), true, seconds);
}

Result<Switchboard::Id> Switchboard::add(ControlConnection connection, bool dialed, double seconds) {
  const Id id = next_id_++;
  auto entry = std::make_unique<Entry>(std::move(connection));
  entry->dialed = dialed;
  entry->patience = seconds;
  entry->connection.deadline = loop_.now() + seconds;
  auto watch = loop_.watch(entry->connection.descriptor(), entry->connection.events(),
                           [this, id](std::uint32_t) { advance(id); });
  if (!watch) return tl::unexpected(watch.error());
  entry->watch = *watch;
  connections_[id] = std::move(entry);
  return id;
}

Switchboard::Entry* Switchboard::find(Id id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() || found->second->doomed ? nullptr : found->second.get();
}

void Switchboard::advance(Id id) {
  Entry* entry = find(id);
  if (entry == nullptr || entry->busy) return;
  entry->busy = true;
  const bool was_connecting = entry->connection.state() == ControlConnection::State::connecting;
  auto moved = entry->connection.advance([&](ControlFrame kind, std::span<const std::byte> payload) {
    announce(id, *entry);  // the first frames may come along with the greeting
    if (!entry->doomed) events_.frame(id, kind, payload);
  });
  if (moved && entry->connection.greeting()) announce(id, *entry);
  entry->busy = false;
  if (entry->doomed) {
    entry->doomed = false;
    return close(id);
  }
  if (!moved) return end(id, moved.error());
  if (was_connecting && entry->connection.state() == ControlConnection::State::proving)
    entry->connection.deadline = loop_.now() + entry->patience;
  if (*moved > 0 && entry->greeted) events_.heard(id);
  refresh(*entry);
}

void Switchboard::announce(Id id, Entry& entry) {
  if (entry.greeted) return;
  entry.greeted = true;
  if (!entry.dialed) --strangers_;
  entry.connection.deadline = kNever;
  events_.greeted(id, *entry.connection.greeting());
}

void Switchboard::end(Id id, const Error& error) {
  const Entry& entry = *connections_.at(id);
  const bool tell = (entry.dialed || entry.greeted) && entry.connection.state() != ControlConnection::State::draining;
  if (!tell && !entry.greeted && error.code == ErrorCode::refused)
    warn(fmt::format("a control connection was turned away: {}", error.message));
  const Error copy = error;
  const Ending ending{entry.connection.nobody_listens(), entry.connection.ended_in_order()};
  close(id);
  if (tell) events_.ended(id, copy, ending);
}

void Switchboard::refresh(Entry& entry) { loop_.change(entry.watch, entry.connection.events()); }

void Switchboard::welcome(Id id, const Greeting& own) {
  if (Entry* entry = find(id)) {
    entry->connection.welcome(own);
    refresh(*entry);
  }
}

void Switchboard::pass_on(Id id, std::vector<ControlWay> ways) {
  Entry* entry = find(id);
  if (entry == nullptr || !entry->connection.awaits_welcome()) return;
  loop_.unwatch(entry->watch);
  passages_.open(entry->connection.take(), *entry->connection.greeting(), std::move(ways));
  close(id);
}

void Switchboard::queue(Id id, std::span<const std::byte> frame) {
  Entry* entry = find(id);
  if (entry == nullptr) return;
  if (!entry->connection.queue(frame) && entry->connection.state() == ControlConnection::State::open)
    warn(fmt::format("{} takes no control messages; the connection ends", entry->connection.name()));
  refresh(*entry);
}

bool Switchboard::idle(Id id) const {
  const Entry* entry = find(id);
  return entry == nullptr || entry->connection.idle();
}

bool Switchboard::answered(Id id) const {
  const Entry* entry = find(id);
  return entry != nullptr && entry->connection.state() != ControlConnection::State::connecting;
}

void Switchboard::read_now(Id id) { advance(id); }

void Switchboard::drain(Id id, double seconds) {
  Entry* entry = find(id);
  if (entry == nullptr) return;
  entry->connection.drain();
  entry->connection.deadline = loop_.now() + seconds;
  refresh(*entry);
}

void Switchboard::hang_up(Id id, std::span<const std::byte> last, double seconds) {
  const Entry* entry = find(id);
  if (entry == nullptr) return;
  const auto state = entry->connection.state();
  if (state == ControlConnection::State::connecting || state == ControlConnection::State::proving) return close(id);
  queue(id, last);
  drain(id, seconds);
}

void Switchboard::close(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Entry& entry = *found->second;
  if (entry.busy) {
    entry.doomed = true;
    return;
  }
  if (!entry.dialed && !entry.greeted) --strangers_;
  loop_.unwatch(entry.watch);
  connections_.erase(found);
}

double Switchboard::expire() {
  const double now = loop_.now();
  double next = passages_.tick();
  if (listen_again_at_ > 0 && now >= listen_again_at_) {
    listen_again_at_ = 0;
    for (Listener& each : listeners_) loop_.change(each.watch, EPOLLIN);
  }
  if (listen_again_at_ > 0) next = std::min(next, listen_again_at_);
  std::vector<Id> late;
  for (const auto& [id, entry] : connections_) {
    if (entry->connection.deadline <= now) late.push_back(id);
    next = std::min(next, entry->connection.deadline);
  }
  for (const Id id : late) {
    const Entry* entry = find(id);
    if (entry == nullptr) continue;
    Error error;
    error.code = ErrorCode::timed_out;
    error.message = fmt::format("{} did not answer in time", entry->connection.name());
    end(id, error);
  }
  return late.empty() ? next : now;
}

}  // namespace tutti
