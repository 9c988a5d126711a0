// The peers of a Tcp and their lanes: who is dialed and when, what becomes of ports and of lanes that go silent.
#include <fmt/core.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "monitor/recorder.hpp"
#include "transport/tcp/tcp_impl.hpp"

namespace tutti {
namespace {

constexpr std::size_t kChunkOverRails = 128 << 10;
// Seconds for which the thread sleeps while there are peers, whatever it knows of: it costs next to nothing.
constexpr double kLongestSleep = 1.0;

/// One connection for each of the peer's ports at least, and as many for one as for another.
std::uint32_t lanes_for(std::size_t rails, int wanted) {
  constexpr std::size_t kMost = kLaneLimit - 1;  // one is kept for the way through a neighbour
  rails = std::clamp<std::size_t>(rails, 1, kMost);
  const std::size_t each = std::clamp<std::size_t>((static_cast<std::size_t>(wanted) + rails - 1) / rails, 1, kMost);
  return static_cast<std::uint32_t>(std::min(each * rails, kMost));
}

/// Returns the address of the same host; none: there is none.
std::optional<SocketAddress> at_host(const std::vector<SocketAddress>& addresses, const SocketAddress& host) {
  const auto found = std::find_if(addresses.begin(), addresses.end(),
                                  [&](const SocketAddress& each) { return each.with_port(0) == host.with_port(0); });
  return found == addresses.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

// Both ends of a link are opened sooner or later, and nothing can move before, so it does not matter which of them
// dials.
std::shared_ptr<Peer> Tcp::Impl::peer_for(const Endpoint& endpoint, bool sends) {
  const PeerKey key{endpoint.id, endpoint.id == id_ && sends};
  const bool dials = peers_.dials(key);
  const std::size_t rails = endpoint.addresses.size();
  const auto peer = find_or_make(key, rails == 0 ? endpoint.id.to_string() : endpoint.addresses.front().to_string(),
                                 dials ? rails : listening_.announced());
  peers_.learn(key, endpoint.addresses);
  if (!dials) return peer;
  const std::lock_guard lock(peer->mutex());
  if (peer->dials()) return peer;
  if (rails == 0) {
    peer->fail(fail(ErrorCode::invalid_argument, "the peer has no address").value(), false);
    return peer;
  }
  const int wanted =
      std::max(options_.lanes > 0 ? options_.lanes : settings().tcp_lanes, static_cast<int>(rails) * source_ports());
  peer->dial_lanes(lanes_for(rails, wanted),
                   options_.dial_timeout > 0 ? options_.dial_timeout : settings().join_timeout);
  return peer;
}

// Over several rails chunks are smaller, so that lanes of different speed are done at the same time. Both ends must cut
// alike.
std::shared_ptr<Peer> Tcp::Impl::find_or_make(const PeerKey& key, const std::string& name, std::size_t rails) {
  if (auto known = peers_.find(key)) return known;
  PeerOptions options;
  options.limits = options_.limits;
  if (rails > 1) options.limits.chunk_limit = std::min(options.limits.chunk_limit, kChunkOverRails);
  options.times.longest_hold = std::max(settings().lane_hold, options.times.first_hold);
  options.only_one_lane = settings().lanes == "backup";
  options.checksums = options_.checksums.value_or(Checksums::sampled);
  options.clock = options_.clock;
  options.tick_by = [look = next_look_](double time) { look->by(time); };
  if (monitor::Recorder& recorder = monitor::Recorder::of_process(); recorder.is_on()) {
    options.watch.emplace();
    options.watch->recorder = &recorder;
    options.watch->process = book_.number_of(key.process);
    options.watch->monitor.window = settings().monitor_window;
    options.watch->monitor.stamps_per_second = 1e6 * ticks_per_microsecond();
  }
  return peers_.add(key, std::make_shared<Peer>(name, std::move(options)));
}

void Tcp::Impl::on_accepted(Fd socket, const LaneGreeting& greeting) {
  if (id_ < greeting.from) {
    log::warn("dropped a connection from {}: it was not its turn to dial", peer_name(socket.get()));
    return on_dropped();
  }
  const PeerKey key{greeting.from};
  const auto peer = find_or_make(key, peer_name(socket.get()), listening_.announced());
  const auto from = peer_address(socket.get());
  WayProbe::Target listens;
  if (from) listens = [this, key, from = *from] { return at_host(peers_.addresses(key), from); };
  take_lane(std::move(socket), greeting.lane, greeting.epoch, peer, std::move(listens));
}

LaneConnector::Reception Tcp::Impl::judge(const LaneGreeting& hello) {
  if (hello.to != id_)
    return book_.number_of(hello.to) >= 0 ? LaneConnector::Reception::pass_on : LaneConnector::Reception::refuse;
  const auto peer = peers_.find(PeerKey{hello.from});
  if (!peer) return LaneConnector::Reception::accept;
  const std::lock_guard lock(peer->mutex());
  return peer->error() ? LaneConnector::Reception::peer_dead : LaneConnector::Reception::accept;
}

void Tcp::Impl::on_dialed(Fd socket, const Dial& dial) {
  const auto peer = find(dial.peer);
  if (!peer) return;
  WayProbe::Target listens;
  if (!dial.route.is_local()) listens = [remote = dial.route.remote] { return std::optional(remote); };
  take_lane(std::move(socket), dial.lane.index, dial.lane.epoch, peer, std::move(listens));
}

void Tcp::Impl::take_lane(Fd socket, std::uint32_t lane, std::uint32_t epoch, const std::shared_ptr<Peer>& peer,
                          WayProbe::Target listens) {
  {
    const std::lock_guard lock(peer->mutex());
    const auto connection = std::make_shared<Connection>(std::move(socket), lane, epoch, poller_, *peer,
                                                         std::move(listens), *options_.sockets);
    connections_.add(connection, peer);
    if (!peer->lane_up(connection)) connection->close();
  }
  wake();
}

void Tcp::Impl::on_dial_failed(const Dial& dial, const Error& why, DialFailure kind) {
  const auto peer = find(dial.peer);
  if (!peer) return;
  log::debug("lane {} to {}: {}", dial.lane.index, peer->name(), why.message);
  {
    const std::lock_guard lock(peer->mutex());
    peer->dial_failed(dial.lane, why, kind);
  }
  wake();
}

void Tcp::Impl::dial(const PeerKey& key, const WantedLane& lane) {
  const std::vector<Route> routes =
      lane.relayed ? book_.relay_routes(book_.number_of(key.process)) : book_.direct_routes(peers_.addresses(key));
  Dial dial{key.process, lane,
            routes.empty() ? Route() : routes[(lane.relayed ? lane.epoch : lane.index) % routes.size()]};
  // A port may still be taken by what was lost: every other attempt is from any.
  if (!lane.relayed && source_ports() != 0 && lane.epoch % 2 == 1) {
    const auto port = options_.source_ports.first + lane.index / routes.size() % static_cast<unsigned>(source_ports());
    if (!dial.route.source) dial.route.source = SocketAddress::any(dial.route.remote.family());
    dial.route.source = dial.route.source->with_port(static_cast<std::uint16_t>(port));
  }
  if (!routes.empty()) return connector_->dial(dial);
  on_dial_failed(dial, fail(ErrorCode::system, "no process of either host could pass it on").value(),
                 DialFailure::passing);
}

double Tcp::Impl::tick() {
  const auto all = peers_.all();
  double next = all.empty() ? kNever : options_.clock() + kLongestSleep;
  bool changed = false;
  std::vector<WantedLane> wanted;
  for (const auto& [key, peer] : all) {
    wanted.clear();
    {
      const std::lock_guard lock(peer->mutex());
      const auto before = std::pair(peer->lanes().size(), peer->error().has_value());
      next = std::min(next, peer->tick(wanted));
      changed = changed || std::pair(peer->lanes().size(), peer->error().has_value()) != before;
    }
    if (stopping_) continue;
    for (const WantedLane& lane : wanted) dial(key, lane);
  }
  connections_.drop_closed();
  if (changed) wake();
  return next;
}

// Lanes of a port without a carrier are given up at once; with one, what is down is tried again.
void Tcp::Impl::on_ports_changed() {
  bool better = false;
  for (const Ports::Change& change : ports_.changes()) {
    if (!change.usable) give_up_lanes(change);
    better = better || change.usable;
  }
  if (better) open_new_ports();
  if (better) try_again();
  connections_.drop_closed();
  wake();
}

void Tcp::Impl::give_up_lanes(const Ports::Change& lost) {
  for (const WatchedConnection& each : connections_.all()) {
    const std::lock_guard lock(each.peer->mutex());
    if (!at_host(lost.addresses, each.connection->local())) continue;
    each.peer->lane_down(*each.connection,
                         fail(ErrorCode::system, fmt::format("{} has no carrier", lost.interface)).value(), false);
  }
}

void Tcp::Impl::try_again() {
  for (const auto& [key, peer] : peers_.all()) {
    const std::lock_guard lock(peer->mutex());
    peer->ports_back();
  }
}

// A port may come back with another address, or be new: the others are to know.
void Tcp::Impl::open_new_ports() {
  std::vector<Fd> listeners = listening_.open_new();
  if (listeners.empty()) return;
  for (Fd& each : listeners) connector_->listen(std::move(each));
  std::function<void(const Endpoint&)> tell;
  {
    const std::lock_guard lock(mutex_);
    tell = moved_;
  }
  if (tell) tell(listening_.endpoint());
}

void Tcp::Impl::on_move(std::function<void(const Endpoint&)> moved) {
  const std::lock_guard lock(mutex_);
  moved_ = std::move(moved);
}

void Tcp::Impl::update(const Endpoint& endpoint) {
  book_.update(endpoint);
  const PeerKey key{endpoint.id};
  const auto peer = peers_.find(key);
  if (!peer || endpoint.addresses.empty()) return;
  peers_.update(key, endpoint.addresses);
  const std::lock_guard lock(peer->mutex());
  if (peer->dials()) peer->ports_back();
}

void Tcp::Impl::close_peer(const ProcessId& id, const Error& why) {
  for (const bool dialing_end : {false, true}) {
    const auto peer = peers_.find(PeerKey{id, dialing_end});
    if (!peer) continue;
    const std::lock_guard lock(peer->mutex());
    peer->fail(why, false);
  }
  connections_.drop_closed();
  wake();
}

}  // namespace tutti
