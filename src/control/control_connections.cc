#include "control/control_connections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

ControlConnections::~ControlConnections() {
  while (!open_.empty()) close(open_.begin()->first);
}

Result<ControlConnections::Id> ControlConnections::dial(const Route& route, const Greeting& greeting,
                                                        Connector::DialTimes times) {
  const auto id = connector_.dial(route, greeting.encode(), times);
  if (id) dials_[*id] = {greeting, route};
  return id;
}

Connector::Answer ControlConnections::greeted(Id id, const Connector::Arrival& arrival) {
  const auto greeting = Greeting::decode(arrival.greeting);
  if (!greeting) return Connector::Answer::drop(arrival.remote.to_string() + ": " + greeting.error().message);
  return events_.greeted(id, *greeting, arrival.is_local);
}

void ControlConnections::accepted(Id id, Fd socket, const Connector::Arrival& arrival) {
  if (add(id, std::move(socket), arrival.remote, arrival.is_local) != nullptr)
    events_.opened(id, Greeting::decode(arrival.greeting).value());
}

void ControlConnections::dialed(Id id, Fd socket, const Blob& reply) {
  const PendingDial dial = dials_.extract(id).mapped();
  const auto greeting = Greeting::decode(reply);
  if (!greeting || greeting->from != dial.greeting.to || greeting->to != dial.greeting.from) {
    const std::string why = fmt::format("{} is not the process we looked for", dial.route.to_string());
    return events_.ended(id, fail(ErrorCode::refused, why).value(), {});
  }
  const SocketAddress remote = dial.route.is_local() ? SocketAddress::loopback() : dial.route.remote;
  if (add(id, std::move(socket), remote, dial.route.is_local()) != nullptr) return events_.opened(id, *greeting);
  events_.ended(id, fail(ErrorCode::system, dial.route.to_string() + " cannot be watched").value(), {});
}

void ControlConnections::dial_failed(Id id, const Error& why, ConnectFailure kind) {
  dials_.erase(id);
  events_.ended(id, why, {kind == ConnectFailure::nobody_listens, false});
}

void ControlConnections::left(Id id) { events_.ended(id, fail(ErrorCode::system, "it went away").value(), {}); }

ControlConnections::Open* ControlConnections::add(Id id, Fd socket, const SocketAddress& remote, bool is_local) {
  const std::string name = is_local ? "a process of this host" : remote.to_string();
  auto open =
      std::make_unique<Open>(Open{ControlConnection(std::move(socket), name), remote, is_local, 0, EventLoop::kNever});
  auto watch =
      loop_.watch(open->connection.descriptor(), open->connection.events(), [this, id](std::uint32_t) { advance(id); });
  if (!watch) return nullptr;
  open->watch = *watch;
  return (open_[id] = std::move(open)).get();
}

ControlConnections::Open* ControlConnections::find(Id id) const {
  const auto found = open_.find(id);
  return found == open_.end() || found->second->doomed ? nullptr : found->second.get();
}

void ControlConnections::advance(Id id) {
  Open* open = find(id);
  if (open == nullptr || open->busy) return;
  open->busy = true;
  auto moved = open->connection.advance([&](ControlFrame kind, std::span<const std::byte> payload) {
    if (!open->doomed) events_.frame(id, kind, payload);
  });
  open->busy = false;
  if (open->doomed) {
    open->doomed = false;
    return close(id);
  }
  if (!moved) return end(id, moved.error());
  if (*moved > 0) events_.heard(id);
  if (Open* still = find(id)) loop_.change(still->watch, still->connection.events());
}

void ControlConnections::end(Id id, const Error& error) {
  const Open& open = *open_.at(id);
  const bool tell = !open.connection.is_draining();
  const Ending ending{false, open.connection.ended_in_order()};
  close(id);
  if (tell) events_.ended(id, error, ending);
}

void ControlConnections::queue(Id id, std::span<const std::byte> frame) {
  Open* open = find(id);
  if (open == nullptr) return;
  if (!open->connection.queue(frame) && !open->connection.is_draining())
    log_.warn(fmt::format("{} takes no control messages; the connection ends", open->connection.name()), loop_.now());
  loop_.change(open->watch, open->connection.events());
}

bool ControlConnections::idle(Id id) const {
  const Open* open = find(id);
  return open == nullptr || open->connection.idle();
}

void ControlConnections::drain(Id id, double seconds) {
  Open* open = find(id);
  if (open == nullptr) return;
  open->connection.drain();
  open->deadline = loop_.now() + seconds;
  loop_.change(open->watch, open->connection.events());
}

void ControlConnections::hang_up(Id id, std::span<const std::byte> last, double seconds) {
  if (find(id) == nullptr) {
    dials_.erase(id);
    auto unfinished = connector_.take_over(id);
    if (!unfinished) return connector_.close(id);
    Open* open = add(id, std::move(unfinished->socket), unfinished->remote, false);
    if (open == nullptr) return;
    open->connection.queue(unfinished->unsent);
  }
  queue(id, last);
  drain(id, seconds);
}

void ControlConnections::close(Id id) {
  const auto found = open_.find(id);
  if (found == open_.end()) {
    dials_.erase(id);
    return connector_.close(id);
  }
  if (found->second->busy) {
    found->second->doomed = true;
    return;
  }
  loop_.unwatch(found->second->watch);
  open_.erase(found);
}

double ControlConnections::tick() {
  const double now = loop_.now();
  double next = std::min(connector_.tick(), log_.catch_up(now));
  std::vector<Id> late;
  for (const auto& [id, open] : open_) {
    if (open->deadline <= now) late.push_back(id);
    next = std::min(next, open->deadline);
  }
  for (const Id id : late) close(id);  // they were draining
  return late.empty() ? next : now;
}

}  // namespace tutti
