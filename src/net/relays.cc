#include "net/relays.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace tutti {

Relays::~Relays() {
  while (!searches_.empty()) end_search(searches_.begin()->first);
  while (!joined_.empty()) end_relay(joined_.begin()->first);
}

void Relays::open(Fd near, Blob greeting, std::vector<Route> routes) {
  if (searches_.size() + joined_.size() >= kLimit) {
    log::info("{} connections of others go through this process; another is turned away", kLimit);
    return;
  }
  const Id id = next_id_++;
  // Until it is joined it has nothing to say, but it may go away.
  auto watch = loop_.watch(near.get(), EPOLLRDHUP, [this, id](std::uint32_t) { end_search(id); });
  if (!watch) return;
  Search& search = searches_[id];
  search.near = std::move(near);
  search.watch = *watch;
  search.greeting = std::move(greeting);
  search.routes.assign(routes.begin(), routes.begin() + static_cast<std::ptrdiff_t>(std::min(routes.size(), kRoutes)));
  search.deadline = loop_.now() + kSearchSeconds;
  begin_next(id);
}

void Relays::begin_next(Id id) {
  Search& search = searches_.at(id);
  search.next_at = loop_.now() + kAnswerSeconds;
  while (!search.routes.empty()) {
    const Route route = std::move(search.routes.front());
    search.routes.pop_front();
    if (begin(id, route)) return;
  }
  if (search.attempts.empty()) end_search(id);
}

bool Relays::begin(Id id, const Route& route) {
  Search& search = searches_.at(id);
  auto connection = PendingConnection::pass_on(sockets_, route, purpose_, key_, search.greeting);
  if (!connection) return false;
  const Id number = next_id_++;
  auto attempt = std::make_unique<Attempt>(Attempt{std::move(*connection)});
  auto watch = loop_.watch(attempt->connection.descriptor(), attempt->connection.events(),
                           [this, id, number](std::uint32_t) { advance_attempt(id, number); });
  if (!watch) return false;
  attempt->watch = *watch;
  search.attempts[number] = std::move(attempt);
  return true;
}

void Relays::advance_attempt(Id id, Id number) {
  Search& search = searches_.at(id);
  Attempt& attempt = *search.attempts.at(number);
  const auto stage = attempt.connection.advance();
  if (stage && *stage == PendingConnection::Stage::done) return join(id, number);
  if (stage) return loop_.change(attempt.watch, attempt.connection.events());
  log::debug("a connection is not passed on: {}", stage.error().message);
  drop_attempt(search, number);
  begin_next(id);
}

void Relays::drop_attempt(Search& search, Id number) {
  loop_.unwatch(search.attempts.at(number)->watch);
  search.attempts.erase(number);
}

void Relays::end_search(Id id) {
  Search& search = searches_.at(id);
  while (!search.attempts.empty()) drop_attempt(search, search.attempts.begin()->first);
  loop_.unwatch(search.watch);
  searches_.erase(id);
}

void Relays::join(Id id, Id number) {
  Search& search = searches_.at(id);
  PendingConnection& far = search.attempts.at(number)->connection;
  log::debug("a {} connection to {} goes through this process", name_of(purpose_), far.name());
  loop_.unwatch(search.attempts.at(number)->watch);
  loop_.unwatch(search.watch);
  Joined& joined = joined_.emplace(id, Joined{Relay(std::move(search.near), far.take())}).first->second;
  end_search(id);
  for (int side = 0; side < 2; ++side) {
    auto watch = loop_.watch(joined.relay.descriptor(side), joined.relay.events(side),
                             [this, id](std::uint32_t) { advance_relay(id); });
    if (!watch) return end_relay(id);
    joined.watches[static_cast<std::size_t>(side)] = *watch;
  }
}

void Relays::advance_relay(Id id) {
  Joined& joined = joined_.at(id);
  if (!joined.relay.advance()) return end_relay(id);
  for (int side = 0; side < 2; ++side)
    loop_.change(joined.watches[static_cast<std::size_t>(side)], joined.relay.events(side));
}

void Relays::end_relay(Id id) {
  for (const std::uint64_t watch : joined_.at(id).watches) loop_.unwatch(watch);
  joined_.erase(id);
}

double Relays::tick() {
  const double now = loop_.now();
  double next = EventLoop::kNever;
  for (auto at = searches_.begin(); at != searches_.end();) {
    const Id id = at->first;
    ++at;  // the search may end
    if (searches_.at(id).deadline <= now) {
      end_search(id);
      continue;
    }
    if (!searches_.at(id).routes.empty() && searches_.at(id).next_at <= now) begin_next(id);
    const auto found = searches_.find(id);
    if (found == searches_.end()) continue;
    next = std::min(next, found->second.deadline);
    if (!found->second.routes.empty()) next = std::min(next, found->second.next_at);
  }
  return next;
}

}  // namespace tutti
