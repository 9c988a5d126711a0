#include "transport/tcp/tcp.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/settings.hpp"
#include "transport/tcp/tcp_impl.hpp"

namespace tutti {
namespace {

constexpr double kBetweenChecks = 50;      // microseconds from one look at overdue chunks to the next
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

}  // namespace

Status Tcp::Impl::listen(bool has_secret) {
  auto listeners = listening_.open(options_.listen, has_secret);
  if (!listeners) return tl::unexpected(listeners.error());
  if (poller_->descriptor() < 0 || !callers_.is_usable() || next_look_->descriptor() < 0)
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
  for (const auto& [key, peer] : peers_.all()) {
    const std::lock_guard lock(peer->mutex());
    peer->fail(closed, true);
  }
}

// What was released here because it was copied must still arrive. If its lane fails now, it goes by another one, which
// the thread dials or accepts. That a lane's bytes were acknowledged by TCP says little: a neighbour may pass them on.
void Tcp::Impl::await_acknowledgements() {
  const auto peers = peers_.all();
  const Deadline deadline = Deadline::in(kAcknowledgements);
  Deadline ask_again = Deadline::in(0);
  while (!deadline.passed()) {
    const bool ask = ask_again.passed();
    if (ask) ask_again = Deadline::in(kAskAgain);
    bool owed = false;
    for (const auto& [key, peer] : peers) {
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
  for (const WatchedConnection& each : connections_.all()) {
    const std::lock_guard lock(each.peer->mutex());
    each.connection->say_bye();
  }
  const Deadline deadline = Deadline::in(kFarewell);
  while (!deadline.passed()) {
    tick();
    const auto connections = connections_.all();
    const bool under_way = std::any_of(connections.begin(), connections.end(), [](const WatchedConnection& each) {
      const std::lock_guard lock(each.peer->mutex());
      return each.connection->is_open() && each.connection->is_unsettled();
    });
    if (!under_way) break;
    pollfd entry{poller_->descriptor(), POLLIN, 0};
    ::poll(&entry, 1, deadline.poll_milliseconds(2));
    drive_ready();
  }
  // Bytes left unread would turn the end of the connection into a reset.
  drive_ready();
}

bool Tcp::Impl::progress() {
  callers_.drove();
  const std::uint64_t likely = connections_.likely();
  if (likely == 0) return drive_ready();
  const bool moved = connections_.drive(likely, EPOLLIN);
  if (moved) wake();
  return moved;
}

bool Tcp::Impl::drive_ready() {
  const bool moved = connections_.drive_ready();
  if (moved) wake();
  connections_.drop_closed();
  check_overdue();
  return moved;
}

// Has peers look at chunks that are overdue. Whoever waits has the time.
void Tcp::Impl::check_overdue() {
  const std::uint64_t now = ticks();
  std::uint64_t last = overdue_checked_.load(std::memory_order_relaxed);
  if (now - last < ticks_of_microseconds(kBetweenChecks)) return;
  if (!overdue_checked_.compare_exchange_strong(last, now, std::memory_order_relaxed)) return;
  for (const auto& peer : peers_.busy()) {
    const std::unique_lock lock(peer->mutex(), std::try_to_lock);
    if (lock) peer->watch()->check_overdue(peer->now());
  }
}

void Tcp::Impl::wait(std::chrono::microseconds at_most) {
  callers_.wait(poller_->descriptor(), at_most);
  check_overdue();
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
  if (!options.checksums) {
    options.checksums = parse_checksums(settings().checksum);
    if (!options.checksums)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("TUTTI_CHECKSUM='{}' is neither off, sampled nor all", settings().checksum));
  }
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

bool Tcp::has_failed(const ProcessId& id) const {
  const auto peer = impl_->find(id);
  if (!peer) return false;
  const std::lock_guard lock(peer->mutex());
  return peer->error().has_value();
}

bool Tcp::has_delivered(const ProcessId& id, std::uint64_t communicator) const {
  const auto peer = impl_->find(id);
  if (!peer) return true;
  const std::lock_guard lock(peer->mutex());
  if (!peer->owes(communicator)) return true;
  peer->ask_for_acknowledgements();
  return false;
}

std::string Tcp::describe_lanes(const ProcessId& id) const {
  const auto peer = impl_->find(id);
  if (!peer) return "no lane";
  const std::lock_guard lock(peer->mutex());
  return peer->describe_lanes();
}

TcpCounters Tcp::counters() const { return impl_->counters(); }

}  // namespace tutti
