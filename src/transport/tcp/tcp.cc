#include "transport/tcp/tcp.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>

#include "base/clock.hpp"
#include "base/settings.hpp"
#include "transport/tcp/tcp_impl.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kAskEvery = 16;  // how often progress() asks epoll
constexpr double kGlanceMicroseconds = 50;
constexpr int kLeastChunk = 4096;          // of TUTTI_TCP_CHUNK
constexpr double kAcknowledgements = 2.0;  // seconds to wait for them at the end
constexpr double kAskAgain = 0.02;         // seconds
constexpr double kFarewell = 1.0;          // seconds to get queued frames out after that

/// Small chunks are wanted by who looks closely: they are acknowledged as closely.
LinkLimits limits_of(std::size_t chunk) {
  LinkLimits limits;
  limits.chunk_limit = chunk;
  limits.window = std::max(limits.window, 2 * chunk_cost(chunk));
  limits.copy_limit = std::min(limits.copy_limit, chunk / 4);
  limits.news_limit = std::min(limits.news_limit, 2 * chunk_cost(chunk));
  return limits;
}

// Counts what happened anywhere that a sleeper might wait for; each thread remembers how far it has seen.
std::atomic<std::uint64_t> g_happenings{0};
thread_local std::uint64_t t_seen = 0;

}  // namespace

Status Tcp::Impl::listen(bool has_secret) {
  auto listeners = listening_.open(options_.listen, has_secret);
  if (!listeners) return tl::unexpected(listeners.error());
  if (poller_->descriptor() < 0 || !wake_ || next_look_->descriptor() < 0)
    return system_error("starting the TCP transport");
  LaneConnector::Options connecting;
  connecting.greeting_timeout = options_.greeting_timeout;
  connecting.sockets = options_.sockets;
  connecting.clock = options_.clock;
  connector_ = std::make_unique<LaneConnector>(*this, key_, id_, poller_->descriptor(), ports_.descriptor(), next_look_,
                                               connecting);
  return connector_->start(std::move(*listeners));
}

Tcp::Impl::~Impl() {
  if (process_ != ::getpid()) {
    // A child of fork: descriptors are closed already, the thread does not exist, and peers belong to the parent.
    if (connector_) connector_->abandon_thread();
    return;
  }
  await_acknowledgements();
  if (connector_) connector_->stop();
  stopping_ = true;
  farewell();
  const Error closed = fail(ErrorCode::aborted, "the transport was closed").value();
  for (auto& [key, known] : peers_) {
    const std::lock_guard lock(known.peer->mutex());
    known.peer->fail(closed, true);
  }
}

// What was released here because it was copied must still arrive. If its lane fails now, it goes by another one, which
// the thread dials or accepts. That a lane's bytes were acknowledged by TCP says little: a neighbour may pass them on.
void Tcp::Impl::await_acknowledgements() {
  std::vector<std::shared_ptr<Peer>> peers;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, known] : peers_) peers.push_back(known.peer);
  }
  const Deadline deadline = Deadline::in(kAcknowledgements);
  Deadline ask_again = Deadline::in(0);
  while (!deadline.passed()) {
    const bool ask = ask_again.passed();
    if (ask) ask_again = Deadline::in(kAskAgain);
    bool owed = false;
    for (const auto& peer : peers) {
      const std::lock_guard lock(peer->mutex());
      if (!peer->is_owed()) continue;
      owed = true;
      if (ask) peer->ask_for_acknowledgements();
    }
    if (!owed) return;
    pollfd entry{poller_->descriptor(), POLLIN, 0};
    ::poll(&entry, 1, deadline.poll_milliseconds(2));
    drive_ready();
  }
}

// What is queued goes out, and then the goodbye. A lane may fail now, too: what it had not brought over goes by the
// others.
void Tcp::Impl::farewell() {
  for (auto& [id, watched] : watched_) {
    const std::lock_guard lock(watched.peer->mutex());
    watched.connection->say_bye();
  }
  const Deadline deadline = Deadline::in(kFarewell);
  while (!deadline.passed()) {
    tick();
    const bool under_way = std::any_of(watched_.begin(), watched_.end(), [](const auto& each) {
      const std::lock_guard lock(each.second.peer->mutex());
      return each.second.connection->is_open() && each.second.connection->is_unsettled();
    });
    if (!under_way) break;
    pollfd entry{poller_->descriptor(), POLLIN, 0};
    ::poll(&entry, 1, deadline.poll_milliseconds(2));
    drive_ready();
  }
  // Bytes left unread would turn the end of the connection into a reset.
  drive_ready();
}

bool Tcp::Impl::is_driven() {
  const std::uint64_t drives = drives_.load(std::memory_order_relaxed);
  const bool driven = drives != drives_seen_ || sleepers_.load(std::memory_order_relaxed) > 0;
  drives_seen_ = drives;
  return driven;
}

// Where something came last, more is likely to come: reading there at once saves asking epoll, which the others get
// often enough.
bool Tcp::Impl::progress() {
  drives_.fetch_add(1, std::memory_order_relaxed);
  // Counted apart: wait() counts as driving too, and a caller that alternates would never come to a turn of asking.
  const std::uint64_t turn = turns_.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t hot = hot_.load(std::memory_order_relaxed);
  if (hot == 0 || turn % kAskEvery == 0) return drive_ready();
  const bool moved = drive_one(hot, EPOLLIN);
  if (moved) wake();
  return moved;
}

bool Tcp::Impl::drive_ready() {
  constexpr int kEvents = 32;
  epoll_event events[kEvents];
  const int ready = ::epoll_wait(poller_->descriptor(), events, kEvents, 0);
  bool moved = false;
  for (int i = 0; i < ready; ++i) moved = drive_one(events[i].data.u64, events[i].events) || moved;
  if (moved) wake();
  drop_removed();
  glance();
  return moved;
}

// Whoever waits has the time.
void Tcp::Impl::glance() {
  const std::uint64_t now = ticks();
  std::uint64_t last = glanced_.load(std::memory_order_relaxed);
  if (now - last < ticks_of_microseconds(kGlanceMicroseconds)) return;
  if (!glanced_.compare_exchange_strong(last, now, std::memory_order_relaxed)) return;
  std::vector<std::shared_ptr<Peer>> busy;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, known] : peers_)
      if (known.peer->watch() != nullptr && known.peer->watch()->is_busy()) busy.push_back(known.peer);
  }
  for (const auto& peer : busy) {
    const std::unique_lock lock(peer->mutex(), std::try_to_lock);
    if (lock) peer->watch()->check_overdue(peer->now());
  }
}

void Tcp::Impl::drop_removed() {
  std::vector<Watched> dropped;  // destroyed after the mutex is free
  for (const std::uint64_t id : poller_->take_removed()) {
    const std::lock_guard lock(mutex_);
    const auto found = watched_.find(id);
    if (found == watched_.end()) continue;
    if (hot_.load(std::memory_order_relaxed) == id) hot_.store(0, std::memory_order_relaxed);
    dropped.push_back(std::move(found->second));
    watched_.erase(found);
  }
}

bool Tcp::Impl::drive_one(std::uint64_t id, std::uint32_t events) {
  Watched watched;
  {
    const std::lock_guard lock(mutex_);
    const auto found = watched_.find(id);
    if (found == watched_.end()) return false;
    watched = found->second;
  }
  const std::unique_lock lock(watched.peer->mutex(), std::try_to_lock);
  if (!lock) return false;  // another thread is at it
  Connection& connection = *watched.connection;
  bool moved = false;
  if ((events & EPOLLOUT) != 0) moved = connection.flush();
  const bool reads = (events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 || connection.cannot_send();
  if (reads && connection.receive()) {
    moved = true;
    if (hot_.load(std::memory_order_relaxed) != id) hot_.store(id, std::memory_order_relaxed);
  }
  if (connection.failure()) watched.peer->lane_down(connection, *connection.failure(), connection.peer_said_bye());
  return moved || !connection.is_open();
}

void Tcp::Impl::wake() {
  // Pairs with wait(): either the sleeper-to-be sees the happening, or we see the sleeper.
  g_happenings.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) ::eventfd_write(wake_.get(), 1);
}

void Tcp::Impl::wait(std::chrono::microseconds at_most) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (g_happenings.load(std::memory_order_seq_cst) == t_seen) {
    pollfd entries[2] = {{poller_->descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    const auto us = std::max<std::int64_t>(at_most.count(), 0);
    const timespec limit{static_cast<time_t>(us / 1000000), static_cast<long>(us % 1000000 * 1000)};
    ::ppoll(entries, 2, &limit, nullptr);
  }
  glance();
  t_seen = g_happenings.load(std::memory_order_seq_cst);
  drives_.fetch_add(1, std::memory_order_relaxed);
  if (sleepers_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  // The last to leave resets the doorbell; for whoever came meanwhile it rings once more.
  eventfd_t rings = 0;
  if (::eventfd_read(wake_.get(), &rings) == 0 && sleepers_.load(std::memory_order_seq_cst) > 0)
    ::eventfd_write(wake_.get(), 1);
}

Tcp::Tcp(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tcp::~Tcp() = default;

Result<std::shared_ptr<Tcp>> Tcp::start(const std::string& secret, TcpOptions options) {
  const LinkLimits& limits = options.limits;
  if (limits.chunk_limit == 0 || limits.chunk_limit > kPayloadLimit ||
      limits.window < 2 * chunk_cost(limits.chunk_limit))
    return fail(ErrorCode::invalid_argument,
                fmt::format("chunks of {} bytes with a window of {}: expected at most {} and two chunks in the window",
                            limits.chunk_limit, limits.window, kPayloadLimit));
  if (settings().lanes != "spread" && settings().lanes != "backup")
    return fail(ErrorCode::invalid_argument,
                fmt::format("TUTTI_LANES='{}' is neither spread nor backup", settings().lanes));
  if (options.source_ports.first == 0) {
    const auto given = parse_port_range(settings().source_ports);
    if (!given) return fail(given.error().code, "TUTTI_SOURCE_PORTS: " + given.error().message);
    options.source_ports = *given;
  }
  if (settings().tcp_chunk > 0 && settings().tcp_chunk < kLeastChunk)
    return fail(ErrorCode::invalid_argument,
                fmt::format("TUTTI_TCP_CHUNK='{}': expected at least {}", settings().tcp_chunk, kLeastChunk));
  if (settings().tcp_chunk > 0) options.limits = limits_of(static_cast<std::size_t>(settings().tcp_chunk));
  auto impl = std::make_unique<Impl>(secret, std::move(options));
  if (auto listening = impl->listen(!secret.empty()); !listening) return tl::unexpected(listening.error());
  return std::shared_ptr<Tcp>(new Tcp(std::move(impl)));
}

Endpoint Tcp::endpoint() const { return impl_->endpoint(); }
void Tcp::on_move(std::function<void(const Endpoint&)> moved) { impl_->on_move(std::move(moved)); }
void Tcp::update(const Endpoint& peer) { impl_->update(peer); }
void Tcp::set_processes(std::vector<AddressBook::Process> all) { impl_->set_processes(std::move(all)); }

std::unique_ptr<SendLink> Tcp::open_send(const Endpoint& peer, const LinkId& id) {
  return impl_->peer_for(peer, true)->open_send(id);
}

std::unique_ptr<RecvLink> Tcp::open_recv(const Endpoint& peer, const LinkId& id) {
  return impl_->peer_for(peer, false)->open_recv(id);
}

bool Tcp::progress() { return impl_->progress(); }
void Tcp::wait(std::chrono::microseconds at_most) { impl_->wait(at_most); }
void Tcp::wake() { impl_->wake(); }
void Tcp::close_peer(const ProcessId& peer, const Error& why) { impl_->close_peer(peer, why); }
bool Tcp::has_failed(const ProcessId& peer) const { return impl_->has_failed(peer); }
bool Tcp::has_delivered(const ProcessId& peer, std::uint64_t communicator) const {
  return impl_->has_delivered(peer, communicator);
}
std::string Tcp::describe_lanes(const ProcessId& peer) const { return impl_->describe_lanes(peer); }
TcpCounters Tcp::counters() const { return impl_->counters(); }

}  // namespace tutti
