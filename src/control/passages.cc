#include "control/passages.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.hpp"

namespace tutti {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Passages::~Passages() {
  while (!searches_.empty()) end_search(searches_.begin()->first);
  while (!relays_.empty()) end_relay(relays_.begin()->first);
}

void Passages::open(Fd near, const Greeting& greeting, std::vector<ControlWay> ways) {
  if (searches_.size() + relays_.size() >= kLimit) {
    log::info("{} control connections of others go through this process; another is turned away", kLimit);
    return;
  }
  const Number number = next_number_++;
  // Until it is joined it has nothing to say, but it may go away.
  auto watch = loop_.watch(near.get(), EPOLLRDHUP, [this, number](std::uint32_t) { end_search(number); });
  if (!watch) return;
  Search& search = searches_[number];
  search.near = std::move(near);
  search.watch = *watch;
  search.greeting = greeting;
  search.ways.assign(ways.begin(), ways.begin() + static_cast<std::ptrdiff_t>(std::min(ways.size(), kWays)));
  search.deadline = loop_.now() + kSearchSeconds;
  begin_next(number);
}

void Passages::begin_next(Number number) {
  Search& search = searches_.at(number);
  search.next_at = loop_.now() + kAnswerSeconds;
  while (!search.ways.empty()) {
    const ControlWay way = std::move(search.ways.front());
    search.ways.pop_front();
    if (begin(number, way)) return;
  }
  if (search.onwards.empty()) end_search(number);
}

bool Passages::begin(Number number, const ControlWay& way) {
  Search& search = searches_.at(number);
  auto connection = ControlConnection::forward(way, key_, search.greeting);
  if (!connection) return false;
  const Number id = next_number_++;
  auto onward = std::make_unique<Onward>(Onward{std::move(*connection)});
  auto watch = loop_.watch(onward->connection.descriptor(), onward->connection.events(),
                           [this, number, id](std::uint32_t) { advance_onward(number, id); });
  if (!watch) return false;
  onward->watch = *watch;
  search.onwards[id] = std::move(onward);
  return true;
}

void Passages::advance_onward(Number number, Number id) {
  Search& search = searches_.at(number);
  Onward& onward = *search.onwards.at(id);
  const auto moved = onward.connection.advance({});
  if (moved && onward.connection.forwarded()) return join(number, id);
  if (moved) return loop_.change(onward.watch, onward.connection.events());
  log::debug("a control connection is not passed on: {}", moved.error().message);
  drop_onward(search, id);
  begin_next(number);
}

void Passages::drop_onward(Search& search, Number id) {
  loop_.unwatch(search.onwards.at(id)->watch);
  search.onwards.erase(id);
}

void Passages::end_search(Number number) {
  Search& search = searches_.at(number);
  while (!search.onwards.empty()) drop_onward(search, search.onwards.begin()->first);
  loop_.unwatch(search.watch);
  searches_.erase(number);
}

void Passages::join(Number number, Number id) {
  Search& search = searches_.at(number);
  loop_.unwatch(search.onwards.at(id)->watch);
  Fd far = search.onwards.at(id)->connection.take();
  log::debug("a control connection from process {} to {} goes through this one", search.greeting.from.to_string(),
             search.greeting.to.to_string());
  loop_.unwatch(search.watch);
  Joined& joined = relays_.emplace(number, Joined{Relay(std::move(search.near), std::move(far))}).first->second;
  end_search(number);
  for (int side = 0; side < 2; ++side) {
    auto watch = loop_.watch(joined.relay.descriptor(side), joined.relay.events(side),
                             [this, number](std::uint32_t) { advance_relay(number); });
    if (!watch) return end_relay(number);
    joined.watches[static_cast<std::size_t>(side)] = *watch;
  }
}

void Passages::advance_relay(Number number) {
  Joined& joined = relays_.at(number);
  if (!joined.relay.advance()) return end_relay(number);
  for (int side = 0; side < 2; ++side)
    loop_.change(joined.watches[static_cast<std::size_t>(side)], joined.relay.events(side));
}

void Passages::end_relay(Number number) {
  for (const std::uint64_t watch : relays_.at(number).watches) loop_.unwatch(watch);
  relays_.erase(number);
}

double Passages::tick() {
  const double now = loop_.now();
  double next = kNever;
  for (auto at = searches_.begin(); at != searches_.end();) {
    const Number number = at->first;
    ++at;  // the search may end
    if (searches_.at(number).deadline <= now) {
      end_search(number);
      continue;
    }
    if (!searches_.at(number).ways.empty() && searches_.at(number).next_at <= now) begin_next(number);
    const auto found = searches_.find(number);
    if (found == searches_.end()) continue;
    next = std::min(next, found->second.deadline);
    if (!found->second.ways.empty()) next = std::min(next, found->second.next_at);
  }
  return next;
}

}  // namespace tutti
