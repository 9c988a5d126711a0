#include "transport/tcp/tcp.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <map>
#include <mutex>
#include <unordered_map>

#include "base/interfaces.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "transport/peer.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/reception.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kAskEvery = 16;  // how often progress() asks epoll
constexpr double kFarewell = 1.0;        // seconds to get queued frames out at the end

// Counts what happened anywhere that a sleeper might wait for; each thread remembers how far it has seen.
std::atomic<std::uint64_t> g_happenings{0};
thread_local std::uint64_t t_seen = 0;

Result<std::vector<SocketAddress>> addresses_to_listen_on(bool has_secret) {
  const auto family = parse_family(settings().family);
  if (!family) return tl::unexpected(family.error());
  if (!has_secret && !settings().insecure)
    return std::vector{SocketAddress::loopback(*family == AF_INET6 ? AF_INET6 : AF_INET)};
  auto chosen = chosen_interfaces();
  if (!chosen) return tl::unexpected(chosen.error());
  std::vector<SocketAddress> addresses;
  for (const Interface& each : *chosen)
    if (!each.addresses.empty()) addresses.push_back(each.addresses.front());
  if (addresses.empty()) return fail(ErrorCode::unsupported, "no network interface has an address to listen on");
  return addresses;
}

}  // namespace

class Tcp::Impl final : public Reception::Host {
 public:
  Impl(const std::string& secret, TcpOptions options)
      : options_(std::move(options)),
        key_(secret, options_.job),
        poller_(std::make_shared<Poller>()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        process_(::getpid()) {
    endpoint_.id = ProcessId::random();
  }
  ~Impl() override;

  Status listen(bool has_secret);

  /// The peer at the other end of a link; dialed when it is first asked for, where dialing is on us.
  std::shared_ptr<Peer> peer_for(const Endpoint& endpoint, bool sends);

  bool progress();
  void wait(std::chrono::microseconds at_most);
  void wake();
  void close_peer(const ProcessId& peer, const Error& why);

  void on_accepted(Fd socket, const LaneGreeting& greeting) override;
  void on_dialed(Fd socket, const Dial& dial) override;
  void on_dial_failed(const Dial& dial, const Error& why) override;
  void on_stranger() override { count(poller_->counters().strangers, 1); }
  bool is_driven() override;
  void drive() override { drive_ready(); }

  const Endpoint& endpoint() const { return endpoint_; }
  TcpCounters counters() const { return poller_->read_counters(); }

 private:
  /// A process and which end we are of a connection to ourselves; otherwise false.
  using PeerKey = std::pair<ProcessId, bool>;
  struct Watched {
    std::shared_ptr<Connection> connection;
    std::shared_ptr<Peer> peer;
  };

  bool drive_ready();
  void drop_removed();
  bool drive_one(std::uint64_t id, std::uint32_t events);
  void watch(const std::shared_ptr<Connection>& connection, std::shared_ptr<Peer> peer);
  std::shared_ptr<Peer> find_or_make(const PeerKey& key, const std::string& name);
  void take_lane(Fd socket, std::uint32_t lane, std::uint32_t epoch, const std::shared_ptr<Peer>& peer);
  void farewell();

  TcpOptions options_;
  JobKey key_;
  Endpoint endpoint_;
  std::shared_ptr<Poller> poller_;
  Fd wake_;
  pid_t process_;

  // A leaf: nothing is called and no other mutex taken while it is held.
  std::mutex mutex_;
  std::map<PeerKey, std::shared_ptr<Peer>> peers_;
  std::map<PeerKey, int> dials_;  // lanes not up yet
  std::unordered_map<std::uint64_t, Watched> watched_;

  std::atomic<std::uint64_t> drives_{0};
  std::atomic<std::uint64_t> turns_{0};  // of progress()
  std::atomic<std::uint64_t> hot_{0};    // the connection that last brought something
  std::uint64_t drives_seen_ = 0;        // by the thread
  std::atomic<int> sleepers_{0};
  std::unique_ptr<Reception> reception_;
};

Status Tcp::Impl::listen(bool has_secret) {
  if (options_.listen.empty()) {
    auto addresses = addresses_to_listen_on(has_secret);
    if (!addresses) return tl::unexpected(addresses.error());
    options_.listen = std::move(*addresses);
  }
  std::vector<Fd> listeners;
  for (const SocketAddress& address : options_.listen) {
    auto listener = listen_on(address);
    if (!listener) return tl::unexpected(listener.error());
    const auto bound = local_address(listener->get());
    if (!bound) return tl::unexpected(bound.error());
    endpoint_.addresses.push_back(*bound);
    listeners.push_back(std::move(*listener));
  }
  if (poller_->descriptor() < 0 || !wake_) return system_error("starting the TCP transport");
  const double dial_timeout = options_.dial_timeout > 0 ? options_.dial_timeout : settings().join_timeout;
  reception_ = std::make_unique<Reception>(*this, key_, endpoint_.id, std::move(listeners), poller_->descriptor(),
                                           Reception::Options{options_.greeting_timeout, dial_timeout});
  return {};
}

Tcp::Impl::~Impl() {
  if (process_ != ::getpid()) {
    // A child of fork: descriptors are closed already, the thread does not exist, and peers belong to the parent.
    if (reception_) reception_->abandon_thread();
    return;
  }
  if (reception_) reception_->stop();
  farewell();
  const Error closed = fail(ErrorCode::aborted, "the transport was closed").value();
  for (auto& [key, peer] : peers_) {
    const std::lock_guard lock(peer->mutex());
    peer->fail(closed, true);
  }
}

// What is queued goes out, so that a peer gets what was already released here, and then the goodbye.
void Tcp::Impl::farewell() {
  for (auto& [id, watched] : watched_) {
    const std::lock_guard lock(watched.peer->mutex());
    watched.connection->say_bye();
  }
  const Deadline deadline = Deadline::in(kFarewell);
  while (!deadline.passed()) {
    const bool queued = std::any_of(watched_.begin(), watched_.end(), [](const auto& each) {
      const std::lock_guard lock(each.second.peer->mutex());
      return each.second.connection->is_open() && each.second.connection->has_queued();
    });
    if (!queued) break;
    pollfd entry{poller_->descriptor(), POLLIN, 0};
    ::poll(&entry, 1, deadline.poll_milliseconds(10));
    drive_ready();
  }
  // Bytes left unread would turn the end of the connection into a reset.
  drive_ready();
}

// The process with the lower id dials. Both ends of a link are opened sooner or later, and nothing can move before, so
// it does not matter which of them that is.
std::shared_ptr<Peer> Tcp::Impl::peer_for(const Endpoint& endpoint, bool sends) {
  const PeerKey key{endpoint.id, endpoint.id == endpoint_.id && sends};
  const bool dials = endpoint_.id < endpoint.id || key.second;
  const int lanes = std::clamp(options_.lanes > 0 ? options_.lanes : settings().tcp_lanes, 1, int{kLaneLimit});
  std::shared_ptr<Peer> peer;
  {
    const std::lock_guard lock(mutex_);
    peer = find_or_make(key,
                        endpoint.addresses.empty() ? endpoint.id.to_string() : endpoint.addresses.front().to_string());
    if (!dials || dials_.contains(key)) return peer;
    dials_[key] = lanes;
  }
  for (int lane = 0; lane < lanes; ++lane) reception_->dial({endpoint, static_cast<std::uint32_t>(lane), 1});
  return peer;
}

std::shared_ptr<Peer> Tcp::Impl::find_or_make(const PeerKey& key, const std::string& name) {
  std::shared_ptr<Peer>& peer = peers_[key];
  if (!peer) peer = std::make_shared<Peer>(name, options_.limits);
  return peer;
}

void Tcp::Impl::watch(const std::shared_ptr<Connection>& connection, std::shared_ptr<Peer> peer) {
  const std::lock_guard lock(mutex_);
  watched_[connection->id()] = {connection, std::move(peer)};
}

void Tcp::Impl::on_accepted(Fd socket, const LaneGreeting& greeting) {
  if (endpoint_.id < greeting.from) {
    log::warn("dropped a connection from {}: it was not its turn to dial", peer_name(socket.get()));
    return on_stranger();
  }
  std::shared_ptr<Peer> peer;
  {
    const std::lock_guard lock(mutex_);
    peer = find_or_make({greeting.from, false}, peer_name(socket.get()));
  }
  take_lane(std::move(socket), greeting.lane, greeting.epoch, peer);
}

void Tcp::Impl::on_dialed(Fd socket, const Dial& dial) {
  const PeerKey key{dial.peer.id, dial.peer.id == endpoint_.id};
  std::shared_ptr<Peer> peer;
  {
    const std::lock_guard lock(mutex_);
    --dials_[key];
    peer = peers_[key];
  }
  take_lane(std::move(socket), dial.lane, dial.epoch, peer);
}

void Tcp::Impl::take_lane(Fd socket, std::uint32_t lane, std::uint32_t epoch, const std::shared_ptr<Peer>& peer) {
  {
    const std::lock_guard lock(peer->mutex());
    const auto connection = std::make_shared<Connection>(std::move(socket), lane, epoch, poller_, *peer);
    watch(connection, peer);
    if (!peer->lane_up(connection)) connection->close();
  }
  wake();
}

void Tcp::Impl::on_dial_failed(const Dial& dial, const Error& why) {
  const PeerKey key{dial.peer.id, dial.peer.id == endpoint_.id};
  std::shared_ptr<Peer> peer;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    more = --dials_[key] > 0;
    peer = peers_[key];
  }
  {
    const std::lock_guard lock(peer->mutex());
    if (!more && peer->lanes().empty())
      peer->fail(why, false);
    else if (!peer->error())
      log::warn("lane {} to {}: {}", dial.lane, peer->name(), why.message);
  }
  wake();
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
  return moved;
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
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 && connection.receive()) {
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
  t_seen = g_happenings.load(std::memory_order_seq_cst);
  drives_.fetch_add(1, std::memory_order_relaxed);
  if (sleepers_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  // The last to leave resets the doorbell; for whoever came meanwhile it rings once more.
  eventfd_t rings = 0;
  if (::eventfd_read(wake_.get(), &rings) == 0 && sleepers_.load(std::memory_order_seq_cst) > 0)
    ::eventfd_write(wake_.get(), 1);
}

void Tcp::Impl::close_peer(const ProcessId& id, const Error& why) {
  for (const bool dialing_end : {false, true}) {
    std::shared_ptr<Peer> peer;
    {
      const std::lock_guard lock(mutex_);
      const auto found = peers_.find({id, dialing_end});
      if (found == peers_.end()) continue;
      peer = found->second;
    }
    const std::lock_guard lock(peer->mutex());
    peer->fail(why, false);
  }
  drop_removed();
  wake();
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
  auto impl = std::make_unique<Impl>(secret, std::move(options));
  if (auto listening = impl->listen(!secret.empty()); !listening) return tl::unexpected(listening.error());
  return std::shared_ptr<Tcp>(new Tcp(std::move(impl)));
}

const Endpoint& Tcp::endpoint() const { return impl_->endpoint(); }

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
TcpCounters Tcp::counters() const { return impl_->counters(); }

}  // namespace tutti
