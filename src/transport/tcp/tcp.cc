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

#include "base/door.hpp"
#include "base/interfaces.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "transport/peer.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/ports.hpp"
#include "transport/tcp/rails.hpp"
#include "transport/tcp/reception.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kAskEvery = 16;  // how often progress() asks epoll
constexpr double kFarewell = 1.0;        // seconds to get queued frames out at the end

// Counts what happened anywhere that a sleeper might wait for; each thread remembers how far it has seen.
std::atomic<std::uint64_t> g_happenings{0};
thread_local std::uint64_t t_seen = 0;

/// Where to listen, and the interface that this is.
struct OpenPort {
  std::string interface;  // empty: whatever becomes of it, it stays where it is
  SocketAddress address;
};

Result<std::vector<OpenPort>> ports_to_open(bool has_secret) {
  const auto family = parse_family(settings().family);
  if (!family) return tl::unexpected(family.error());
  if (!has_secret && !settings().insecure)
    return std::vector<OpenPort>{{"", SocketAddress::loopback(*family == AF_INET6 ? AF_INET6 : AF_INET)}};
  auto chosen = chosen_interfaces();
  if (!chosen) return tl::unexpected(chosen.error());
  std::vector<OpenPort> ports;
  for (const Interface& each : *chosen)
    if (!each.addresses.empty()) ports.push_back({each.name, each.addresses.front()});
  if (ports.empty()) return fail(ErrorCode::unsupported, "no network interface has an address to listen on");
  return ports;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// One connection for each of the peer's ports at least, and as many for one as for another.
std::uint32_t lanes_for(std::size_t rails, int wanted) {
  constexpr std::size_t kMost = kLaneLimit - 1;  // one is kept for the way through a neighbour
  rails = std::clamp<std::size_t>(rails, 1, kMost);
  const std::size_t each = std::clamp<std::size_t>((static_cast<std::size_t>(wanted) + rails - 1) / rails, 1, kMost);
  return static_cast<std::uint32_t>(std::min(each * rails, kMost));
}

bool lists(const std::vector<SocketAddress>& addresses, const SocketAddress& address) {
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const SocketAddress& each) { return each.with_port(0) == address.with_port(0); });
}

}  // namespace

class Tcp::Impl final : public Reception::Host {
 public:
  Impl(const std::string& secret, TcpOptions options)
      : options_(std::move(options)),
        key_(secret, options_.job),
        poller_(std::make_shared<Poller>()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        process_(::getpid()) {}
  ~Impl() override;

  Status listen(bool has_secret);

  /// The peer at the other end of a link; dialed when it is first asked for, where dialing is on us.
  std::shared_ptr<Peer> peer_for(const Endpoint& endpoint, bool sends);

  bool progress();
  void wait(std::chrono::microseconds at_most);
  void wake();
  void close_peer(const ProcessId& peer, const Error& why);

  void on_accepted(Fd socket, const LaneGreeting& greeting) override;
  Attempt::Verdict judge(const LaneGreeting& hello) override;
  std::vector<Rail> routes_to(const ProcessId& process) override;
  void on_dialed(Fd socket, const Dial& dial) override;
  void on_dial_failed(const Dial& dial, const Error& why, bool refused) override;
  void on_ports_changed() override;
  void on_stranger() override { count(poller_->counters().strangers, 1); }
  bool is_driven() override;
  void drive() override { drive_ready(); }
  double tick() override;

  std::string describe_lanes(const ProcessId& peer);
  Endpoint endpoint();
  void on_move(std::function<void(const Endpoint&)> moved);
  void follow(const Endpoint& endpoint);
  void introduce(std::vector<Neighbour> all);
  TcpCounters counters() const { return poller_->read_counters(); }

 private:
  /// A process and which end we are of a connection to ourselves; otherwise false.
  using PeerKey = std::pair<ProcessId, bool>;
  struct Watched {
    std::shared_ptr<Connection> connection;
    std::shared_ptr<Peer> peer;
  };
  struct Known {
    std::shared_ptr<Peer> peer;
    std::vector<SocketAddress> addresses;  // to dial; empty: it dials us
  };

  bool drive_ready();
  void drop_removed();
  bool drive_one(std::uint64_t id, std::uint32_t events);
  void watch(const std::shared_ptr<Connection>& connection, std::shared_ptr<Peer> peer);
  Known& find_or_make(const PeerKey& key, const std::string& name);
  std::shared_ptr<Peer> find(const ProcessId& id);
  void dial(const ProcessId& id, const Known& known, const WantedLane& lane);
  std::vector<Rail> rails_to(const std::vector<SocketAddress>& remote);
  std::vector<Rail> detours_to(const ProcessId& id);
  std::vector<Neighbour> neighbours_of(const ProcessId& id);
  void give_up_lanes(const Ports::Change& lost);
  void try_again();
  void move_ports();
  void take_lane(Fd socket, std::uint32_t lane, std::uint32_t epoch, const std::shared_ptr<Peer>& peer);
  void farewell();

  TcpOptions options_;
  JobKey key_;
  const ProcessId id_ = ProcessId::random();
  Door door_;
  std::shared_ptr<Poller> poller_;
  Fd wake_;
  pid_t process_;

  // A leaf: nothing is called and no other mutex taken while it is held.
  std::mutex mutex_;
  std::vector<OpenPort> open_ports_;  // the thread's to change
  std::function<void(const Endpoint&)> moved_;
  std::map<ProcessId, Neighbour> directory_;
  std::map<PeerKey, Known> peers_;
  std::unordered_map<std::uint64_t, Watched> watched_;

  std::atomic<std::uint64_t> drives_{0};
  std::atomic<std::uint64_t> turns_{0};  // of progress()
  std::atomic<std::uint64_t> hot_{0};    // the connection that last brought something
  std::uint64_t drives_seen_ = 0;        // by the thread
  std::atomic<int> sleepers_{0};
  Ports ports_;  // the thread's
  std::unique_ptr<Reception> reception_;
};

Status Tcp::Impl::listen(bool has_secret) {
  Result<std::vector<OpenPort>> ports = std::vector<OpenPort>();
  for (const SocketAddress& address : options_.listen) ports->push_back({"", address});
  if (options_.listen.empty()) ports = ports_to_open(has_secret);
  if (!ports) return tl::unexpected(ports.error());
  std::vector<Fd> listeners;
  for (const OpenPort& port : *ports) {
    auto listener = listen_on(port.address);
    if (!listener) return tl::unexpected(listener.error());
    const auto bound = local_address(listener->get());
    if (!bound) return tl::unexpected(bound.error());
    open_ports_.push_back({port.interface, *bound});
    listeners.push_back(std::move(*listener));
  }
  // Without a door this process is on its own ports; nothing else depends on it.
  if (auto door = Door::open(id_)) {
    door_ = std::move(*door);
    listeners.push_back(door_.take_listener());
  } else {
    log::info("no door for neighbours: {}", door.error().message);
  }
  if (poller_->descriptor() < 0 || !wake_) return system_error("starting the TCP transport");
  reception_ = std::make_unique<Reception>(*this, key_, id_, std::move(listeners), poller_->descriptor(),
                                           ports_.descriptor(), Reception::Options{options_.greeting_timeout});
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
  for (auto& [key, known] : peers_) {
    const std::lock_guard lock(known.peer->mutex());
    known.peer->fail(closed, true);
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
  const PeerKey key{endpoint.id, endpoint.id == id_ && sends};
  const bool dials = id_ < endpoint.id || key.second;
  std::shared_ptr<Peer> peer;
  {
    const std::lock_guard lock(mutex_);
    Known& known = find_or_make(
        key, endpoint.addresses.empty() ? endpoint.id.to_string() : endpoint.addresses.front().to_string());
    peer = known.peer;
    if (!dials || !known.addresses.empty()) return peer;
    known.addresses = endpoint.addresses;
  }
  {
    const std::lock_guard lock(peer->mutex());
    if (endpoint.addresses.empty()) {
      peer->fail(fail(ErrorCode::invalid_argument, "the peer has no address").value(), false);
      return peer;
    }
    const int wanted = options_.lanes > 0 ? options_.lanes : std::max(settings().tcp_lanes, 1);
    peer->dial_lanes(lanes_for(endpoint.addresses.size(), wanted),
                     options_.dial_timeout > 0 ? options_.dial_timeout : settings().join_timeout);
  }
  reception_->wake();
  return peer;
}

Tcp::Impl::Known& Tcp::Impl::find_or_make(const PeerKey& key, const std::string& name) {
  Known& known = peers_[key];
  if (known.peer) return known;
  PeerOptions options;
  options.limits = options_.limits;
  options.times.longest_hold = std::max(settings().lane_hold, options.times.first_hold);
  options.only_one_lane = settings().lanes == "backup";
  options.clock = steady_seconds;
  known.peer = std::make_shared<Peer>(name, std::move(options));
  return known;
}

std::shared_ptr<Peer> Tcp::Impl::find(const ProcessId& id) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find({id, id == id_});
  return found == peers_.end() ? nullptr : found->second.peer;
}

void Tcp::Impl::watch(const std::shared_ptr<Connection>& connection, std::shared_ptr<Peer> peer) {
  const std::lock_guard lock(mutex_);
  watched_[connection->id()] = {connection, std::move(peer)};
}

void Tcp::Impl::on_accepted(Fd socket, const LaneGreeting& greeting) {
  if (id_ < greeting.from) {
    log::warn("dropped a connection from {}: it was not its turn to dial", peer_name(socket.get()));
    return on_stranger();
  }
  std::shared_ptr<Peer> peer;
  {
    const std::lock_guard lock(mutex_);
    peer = find_or_make({greeting.from, false}, peer_name(socket.get())).peer;
  }
  take_lane(std::move(socket), greeting.lane, greeting.epoch, peer);
}

Attempt::Verdict Tcp::Impl::judge(const LaneGreeting& hello) {
  std::shared_ptr<Peer> peer;
  {
    const std::lock_guard lock(mutex_);
    if (hello.to != id_) return directory_.contains(hello.to) ? Attempt::Verdict::pass_on : Attempt::Verdict::refuse;
    const auto found = peers_.find({hello.from, false});
    if (found == peers_.end()) return Attempt::Verdict::welcome;
    peer = found->second.peer;
  }
  const std::lock_guard lock(peer->mutex());
  return peer->error() ? Attempt::Verdict::gone : Attempt::Verdict::welcome;
}

void Tcp::Impl::on_dialed(Fd socket, const Dial& dial) {
  if (const auto peer = find(dial.peer)) take_lane(std::move(socket), dial.lane.index, dial.lane.epoch, peer);
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

void Tcp::Impl::on_dial_failed(const Dial& dial, const Error& why, bool refused) {
  const auto peer = find(dial.peer);
  if (!peer) return;
  log::debug("lane {} to {}: {}", dial.lane.index, peer->name(), why.message);
  {
    const std::lock_guard lock(peer->mutex());
    peer->dial_failed(dial.lane, why, refused);
  }
  wake();
}

std::vector<Rail> Tcp::Impl::rails_to(const std::vector<SocketAddress>& remote) {
  std::vector<OwnAddress> own = own_addresses();
  const std::vector<SocketAddress> ours = endpoint().addresses;
  std::erase_if(own, [&](const OwnAddress& each) { return !lists(ours, each.address); });
  return match_rails(own, remote);
}

void Tcp::Impl::dial(const ProcessId& id, const Known& known, const WantedLane& lane) {
  const std::vector<Rail> rails = lane.relayed ? detours_to(id) : rails_to(known.addresses);
  const Dial dial{id, lane, rails.empty() ? Rail() : rails[(lane.relayed ? lane.epoch : lane.index) % rails.size()]};
  if (!rails.empty()) return reception_->dial(dial);
  on_dial_failed(dial, fail(ErrorCode::system, "no process of either host could pass it on").value(), false);
}

// By way of our neighbours, who may have a port that works, or of the peer's.
std::vector<Rail> Tcp::Impl::detours_to(const ProcessId& id) {
  std::vector<Rail> ways;
  for (const Neighbour& each : neighbours_of(id_))
    if (!each.endpoint.door.empty()) ways.push_back({std::nullopt, {}, each.endpoint.door});
  for (const Neighbour& each : neighbours_of(id))
    for (const Rail& rail : rails_to(each.endpoint.addresses)) ways.push_back(rail);
  return ways;
}

// What a neighbour wants passed on goes out by our ports; what comes for a neighbour, by its door.
std::vector<Rail> Tcp::Impl::routes_to(const ProcessId& process) {
  Neighbour target;
  std::uint64_t own_host = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = directory_.find(process);
    if (found == directory_.end()) return {};
    target = found->second;
    own_host = directory_[id_].host;
  }
  if (target.host == own_host) return {{std::nullopt, {}, target.endpoint.door}};
  std::vector<Rail> ways = rails_to(target.endpoint.addresses);
  for (const Neighbour& each : neighbours_of(process))
    for (const Rail& rail : rails_to(each.endpoint.addresses)) ways.push_back(rail);
  return ways;
}

std::vector<Neighbour> Tcp::Impl::neighbours_of(const ProcessId& id) {
  const std::lock_guard lock(mutex_);
  const auto found = directory_.find(id);
  std::vector<Neighbour> others;
  if (found == directory_.end()) return others;
  for (const auto& [process, each] : directory_)
    if (process != id && each.host == found->second.host) others.push_back(each);
  return others;
}

void Tcp::Impl::introduce(std::vector<Neighbour> all) {
  const std::lock_guard lock(mutex_);
  for (Neighbour& each : all) directory_[each.endpoint.id] = std::move(each);
}

double Tcp::Impl::tick() {
  std::vector<std::pair<ProcessId, Known>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, known] : peers_) all.emplace_back(key.first, known);
  }
  double next = kNever;
  bool changed = false;
  for (const auto& [id, known] : all) {
    std::vector<WantedLane> wanted;
    {
      const std::lock_guard lock(known.peer->mutex());
      const std::size_t lanes = known.peer->lanes().size();
      next = std::min(next, known.peer->tick(wanted));
      changed = changed || known.peer->lanes().size() != lanes || known.peer->error();
    }
    for (const WantedLane& lane : wanted) dial(id, known, lane);
  }
  drop_removed();
  if (changed) wake();
  return next == kNever ? kNever : std::max(next - steady_seconds(), 0.0);
}

// Lanes of a port without a carrier are given up at once; with one, what is down is tried again.
void Tcp::Impl::on_ports_changed() {
  bool better = false;
  for (const Ports::Change& change : ports_.changes()) {
    if (!change.usable) give_up_lanes(change);
    better = better || change.usable;
  }
  if (better) move_ports();
  if (better) try_again();
  drop_removed();
  wake();
}

void Tcp::Impl::give_up_lanes(const Ports::Change& lost) {
  std::vector<Watched> watched;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, each] : watched_) watched.push_back(each);
  }
  for (const Watched& each : watched) {
    const std::lock_guard lock(each.peer->mutex());
    if (!lists(lost.addresses, each.connection->local())) continue;
    each.peer->lane_down(*each.connection,
                         fail(ErrorCode::system, fmt::format("{} has no carrier", lost.interface)).value(), false);
  }
}

void Tcp::Impl::try_again() {
  std::vector<std::shared_ptr<Peer>> peers;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, known] : peers_) peers.push_back(known.peer);
  }
  for (const auto& peer : peers) {
    const std::lock_guard lock(peer->mutex());
    for (std::uint32_t index = 0; index < peer->slots().size(); ++index)
      if (!peer->slots()[index].in_use()) peer->port_back(index);
  }
}

// A port may come back with another address, or be new: listen there, and let the others know.
void Tcp::Impl::move_ports() {
  if (open_ports_.front().interface.empty()) return;
  const auto wanted = ports_to_open(true);
  if (!wanted) return;
  bool moved = false;
  for (const OpenPort& port : *wanted) {
    const auto same = std::find_if(open_ports_.begin(), open_ports_.end(),
                                   [&](const OpenPort& each) { return each.interface == port.interface; });
    if (same != open_ports_.end() && same->address.with_port(0) == port.address.with_port(0)) continue;
    auto listener = listen_on(port.address);
    const auto bound = listener ? local_address(listener->get()) : Result<SocketAddress>(SocketAddress());
    if (!listener || !bound) continue;
    reception_->listen(std::move(*listener));
    log::info("{} has the address {} now", port.interface, bound->host());
    moved = true;
    const std::lock_guard lock(mutex_);
    if (same != open_ports_.end())
      same->address = *bound;
    else
      open_ports_.push_back({port.interface, *bound});
  }
  std::function<void(const Endpoint&)> tell;
  {
    const std::lock_guard lock(mutex_);
    tell = moved_;
  }
  if (moved && tell) tell(endpoint());
}

Endpoint Tcp::Impl::endpoint() {
  const std::lock_guard lock(mutex_);
  Endpoint own{id_, {}, door_.path()};
  for (const OpenPort& port : open_ports_) own.addresses.push_back(port.address);
  return own;
}

void Tcp::Impl::on_move(std::function<void(const Endpoint&)> moved) {
  const std::lock_guard lock(mutex_);
  moved_ = std::move(moved);
}

void Tcp::Impl::follow(const Endpoint& endpoint) {
  std::shared_ptr<Peer> peer;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = directory_.find(endpoint.id); known != directory_.end()) known->second.endpoint = endpoint;
    const auto found = peers_.find({endpoint.id, false});
    if (found == peers_.end() || found->second.addresses.empty() || endpoint.addresses.empty()) return;
    found->second.addresses = endpoint.addresses;
    peer = found->second.peer;
  }
  {
    const std::lock_guard lock(peer->mutex());
    for (std::uint32_t index = 0; index < peer->slots().size(); ++index)
      if (!peer->slots()[index].in_use()) peer->port_back(index);
  }
  reception_->wake();
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
      peer = found->second.peer;
    }
    const std::lock_guard lock(peer->mutex());
    peer->fail(why, false);
  }
  drop_removed();
  wake();
}

std::string Tcp::Impl::describe_lanes(const ProcessId& id) {
  const auto peer = find(id);
  if (!peer) return "no lane";
  const std::lock_guard lock(peer->mutex());
  return peer->describe_lanes();
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
  auto impl = std::make_unique<Impl>(secret, std::move(options));
  if (auto listening = impl->listen(!secret.empty()); !listening) return tl::unexpected(listening.error());
  return std::shared_ptr<Tcp>(new Tcp(std::move(impl)));
}

Endpoint Tcp::endpoint() const { return impl_->endpoint(); }
void Tcp::on_move(std::function<void(const Endpoint&)> moved) { impl_->on_move(std::move(moved)); }
void Tcp::follow(const Endpoint& peer) { impl_->follow(peer); }
void Tcp::introduce(std::vector<Neighbour> all) { impl_->introduce(std::move(all)); }

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
std::string Tcp::describe_lanes(const ProcessId& peer) const { return impl_->describe_lanes(peer); }
TcpCounters Tcp::counters() const { return impl_->counters(); }

}  // namespace tutti
