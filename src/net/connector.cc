#include "net/connector.hpp"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace tutti {
namespace {

constexpr int kAcceptsPerTurn = 64;      // so that a flood of newcomers does not starve those who are in
constexpr double kProvenSeconds = 60;    // to greet, for who has proven itself
constexpr double kCrowdedPause = 0.005;  // seconds until those who wait are looked at again,
constexpr double kExhaustedPause = 0.1;  // and the same without a descriptor for them

}  // namespace

std::size_t Connector::unproven_limit() {
  constexpr std::size_t kLeast = 16, kMost = 1024;
  constexpr rlim_t kShare = 8;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / kShare, kLeast, kMost));
}

Connector::Connector(EventLoop& loop, const Options& options, Owner& owner)
    : loop_(loop), options_(options), owner_(owner), relays_(loop, *options.sockets, options.purpose, options.key) {}

Connector::~Connector() {
  stop_listening();
  while (!pending_.empty()) remove(pending_.begin()->first);
}

Status Connector::listen(Fd listener) {
  const std::size_t index = listeners_.size();
  auto watch = loop_.watch(listener.get(), listen_again_at_ > 0 ? 0u : std::uint32_t{EPOLLIN},
                           [this, index](std::uint32_t) { accept_some(index); });
  if (!watch) return tl::unexpected(watch.error());
  listeners_.push_back({std::move(listener), *watch});
  return {};
}

void Connector::stop_listening() {
  for (Listener& each : listeners_) {
    loop_.unwatch(each.watch);
    each.socket.reset();
  }
  std::vector<Id> ungreeted;
  for (const auto& [id, pending] : pending_)
    if (!pending->dialed && !pending->greeted) ungreeted.push_back(id);
  for (const Id id : ungreeted) remove(id);
}

// Those that are left wait for the next turn: others want to get on, too.
void Connector::accept_some(std::size_t listener) {
  for (int taken = 0; taken < kAcceptsPerTurn; ++taken) {
    if (!make_room()) return pause_listening(kCrowdedPause);
    auto accepted = options_.sockets->accept(listeners_[listener].socket.get());
    if (!accepted) {
      // Out of descriptors, most likely. The connection stays queued, and the listener readable.
      auto oldest = oldest_unproven();
      if (!oldest) oldest = oldest_ungreeted();
      if (oldest && has_had_its_time(*find(*oldest))) return drop(*oldest, accepted.error().message);
      log_.warn(accepted.error().message, loop_.now());
      return pause_listening(kExhaustedPause);
    }
    if (!*accepted) return;
    auto connection =
        PendingConnection::accept(std::move(**accepted), options_.purpose, options_.key, options_.greeting_limit);
    if (const auto added = add(std::move(connection), options_.patience, false); !added)
      log_.warn(added.error().message, loop_.now());
  }
}

std::optional<Connector::Id> Connector::oldest_unproven() const {
  const auto oldest = std::find_if(pending_.begin(), pending_.end(),
                                   [](const auto& each) { return !each.second->dialed && !each.second->proven; });
  if (oldest == pending_.end()) return std::nullopt;
  return oldest->first;
}

/// Returns the oldest that has proven itself and not greeted. Without a secret anybody can do that.
std::optional<Connector::Id> Connector::oldest_ungreeted() const {
  const auto oldest = std::find_if(pending_.begin(), pending_.end(),
                                   [](const auto& each) { return !each.second->dialed && !each.second->greeted; });
  if (oldest == pending_.end()) return std::nullopt;
  return oldest->first;
}

bool Connector::has_had_its_time(const Pending& pending) const { return loop_.now() - pending.since >= kFairSeconds; }

// Honest peers prove themselves at once, but when many start at the same time each needs a moment.
bool Connector::make_room() {
  if (unproven_ < unproven_limit_) return true;
  const auto oldest = oldest_unproven();
  if (!oldest) return true;
  const Pending& pending = *find(*oldest);
  if (!has_had_its_time(pending)) return false;
  drop(*oldest, pending.connection.name() + ": too many connections that have not proven themselves");
  return true;
}

void Connector::pause_listening(double seconds) {
  listen_again_at_ = loop_.now() + seconds;
  for (const Listener& each : listeners_) loop_.change(each.watch, 0);
}

Result<Connector::Id> Connector::dial(const Route& route, const Blob& greeting, DialTimes times) {
  auto connection = PendingConnection::dial(*options_.sockets, route, options_.purpose, options_.key, greeting);
  if (!connection) return tl::unexpected(connection.error());
  const bool is_connecting = connection->stage() == PendingConnection::Stage::connecting;
  const auto id = add(std::move(*connection), is_connecting ? times.answer : times.greeting, true);
  if (id) pending_.at(*id)->greeting_seconds = times.greeting;
  return id;
}

Result<Connector::Id> Connector::add(PendingConnection connection, double seconds, bool dialed) {
  const Id id = next_id_++;
  auto pending = std::make_unique<Pending>(std::move(connection));
  if (auto watched = watch(id, *pending); !watched) return tl::unexpected(watched.error());
  pending->since = loop_.now();
  pending->deadline = loop_.now() + seconds;
  pending->dialed = dialed;
  pending_[id] = std::move(pending);
  if (!dialed) ++unproven_;
  return id;
}

Status Connector::watch(Id id, Pending& pending) {
  const auto watch = loop_.watch(pending.connection.descriptor(), pending.connection.events(),
                                 [this, id](std::uint32_t events) { on_events(id, events); });
  if (!watch) return tl::unexpected(watch.error());
  pending.watch = *watch;
  return {};
}

void Connector::on_events(Id id, std::uint32_t events) {
  advance(id);
  Pending* pending = find(id);
  // It has said its last words, which wait in the socket until it is answered; epoll would report that for ever.
  if (pending != nullptr && pending->greeted && (events & (EPOLLHUP | EPOLLERR)) != 0)
    loop_.unwatch(std::exchange(pending->watch, 0));
}

Connector::Pending* Connector::find(Id id) const {
  const auto found = pending_.find(id);
  return found == pending_.end() ? nullptr : found->second.get();
}

void Connector::advance(Id id) {
  using Stage = PendingConnection::Stage;
  Pending* pending = find(id);
  if (pending == nullptr) return;
  const bool was_connecting = pending->connection.stage() == Stage::connecting;
  const auto stage = pending->connection.advance();
  if (!stage) return give_up(id, stage.error(), pending->connection.failure());
  if (!pending->dialed && !pending->proven && pending->connection.is_proven()) note_proof(*pending);
  if (*stage == Stage::done) return finish(id);
  if (*stage == Stage::greeted && !pending->greeted) return judge(id);
  if (was_connecting && *stage != Stage::connecting) pending->deadline = loop_.now() + pending->greeting_seconds;
  loop_.change(pending->watch, pending->connection.events());
}

// It belongs to the job, and greets as soon as it gets a core: it is no longer held to the time of strangers.
void Connector::note_proof(Pending& pending) {
  pending.proven = true;
  --unproven_;
  pending.deadline = std::max(pending.deadline, loop_.now() + kProvenSeconds);
}

void Connector::judge(Id id) {
  Pending& pending = *find(id);
  pending.greeted = true;
  pending.deadline = EventLoop::kNever;
  pending.arrival = {pending.connection.received(), pending.connection.remote(), pending.connection.is_local()};
  answer(id, owner_.greeted(id, pending.arrival));
}

void Connector::answer(Id id, Answer answer) {
  Pending* pending = find(id);
  if (pending == nullptr || pending->connection.stage() != PendingConnection::Stage::greeted) return;
  switch (answer.kind) {
    case Answer::Kind::accept:
    case Answer::Kind::refuse:
      pending->refused = answer.kind == Answer::Kind::refuse;
      pending->deadline = loop_.now() + options_.patience;
      pending->connection.reply(answer.reply);
      if (pending->watch == 0 && !watch(id, *pending)) return close(id);
      return advance(id);
    case Answer::Kind::drop:
      return drop(id, answer.why);
    case Answer::Kind::pass_on: {
      const auto removed = remove(id);
      return relays_.open(removed->connection.take(), std::move(removed->arrival.greeting), std::move(answer.routes));
    }
    case Answer::Kind::later:
      return loop_.change(pending->watch, pending->connection.events());
  }
}

void Connector::finish(Id id) {
  const auto done = remove(id);
  if (done->dialed) return owner_.dialed(id, done->connection.take(), done->connection.received());
  if (!done->refused) owner_.accepted(id, done->connection.take(), done->arrival);
}

void Connector::give_up(Id id, const Error& why, ConnectFailure kind) {
  const Pending& pending = *find(id);
  if (pending.dialed) {
    remove(id);
    return owner_.dial_failed(id, why, kind);
  }
  if (pending.greeted) {
    remove(id);
    return owner_.left(id);
  }
  const bool went_away = kind == ConnectFailure::ended && why.code == ErrorCode::system;
  if (!went_away) return drop(id, why.message);
  // Whoever only looks whether there is a way ends the connection without a word.
  const bool said_something = !pending.connection.is_untouched();
  log::debug("a {} connection ended: {}", name_of(options_.purpose), why.message);
  remove(id);
  if (said_something) owner_.dropped();
}

void Connector::drop(Id id, const std::string& why) {
  remove(id);
  if (!why.empty()) log_.warn(fmt::format("dropped a {} connection: {}", name_of(options_.purpose), why), loop_.now());
  owner_.dropped();
}

void Connector::close(Id id) {
  if (find(id) != nullptr) remove(id);
}

std::unique_ptr<Connector::Pending> Connector::remove(Id id) {
  auto removed = std::move(pending_.extract(id).mapped());
  if (!removed->dialed && !removed->proven) --unproven_;
  loop_.unwatch(removed->watch);
  return removed;
}

std::optional<Connector::Unfinished> Connector::take_over(Id id) {
  const Pending* pending = find(id);
  if (pending == nullptr || !pending->dialed || !pending->connection.is_proven()) return std::nullopt;
  const auto removed = remove(id);
  const auto unsent = removed->connection.unsent();
  return Unfinished{removed->connection.take(), removed->connection.remote(), Blob(unsent.begin(), unsent.end())};
}

bool Connector::is_connected(Id id) const {
  const Pending* pending = find(id);
  return pending != nullptr && pending->connection.stage() != PendingConnection::Stage::connecting;
}

double Connector::tick() {
  const double now = loop_.now();
  double next = std::min(relays_.tick(), log_.catch_up(now));
  if (listen_again_at_ > 0 && now >= listen_again_at_) {
    listen_again_at_ = 0;
    for (const Listener& each : listeners_) loop_.change(each.watch, EPOLLIN);
  }
  if (listen_again_at_ > 0) next = std::min(next, listen_again_at_);
  std::vector<Id> late;
  for (const auto& [id, pending] : pending_) {
    if (pending->deadline <= now) late.push_back(id);
    next = std::min(next, pending->deadline);
  }
  for (const Id id : late) {
    const Pending* pending = find(id);
    if (pending == nullptr) continue;
    const bool connects = pending->connection.stage() == PendingConnection::Stage::connecting;
    give_up(id, pending->connection.late(), connects ? ConnectFailure::no_answer : ConnectFailure::ended);
  }
  return late.empty() ? next : now;
}

}  // namespace tutti
