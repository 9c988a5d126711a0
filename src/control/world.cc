#include "control/world.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>

#include "base/log.hpp"

namespace tutti {
namespace {

std::string end_of(const ControlPeer& peer) { return fmt::format("process {} of this host has ended", peer.pid); }

}  // namespace

World::World(EventLoop& loop, ControlConnections& connections, Mailbox& mailbox, Roster& roster, News news,
             double heartbeat_timeout)
    : loop_(loop),
      connections_(connections),
      mailbox_(mailbox),
      roster_(roster),
      news_(std::move(news)),
      heartbeat_timeout_(heartbeat_timeout) {}

ControlConnections::Events World::events() {
  return {[this](Id id, const Greeting& greeting, bool is_local) { return greeted(id, greeting, is_local); },
          [this](Id id, const Greeting& greeting) { opened(id, greeting); },
          [this](Id id, ControlFrame kind, std::span<const std::byte> payload) { received(id, kind, payload); },
          [this](Id id) { heard(id); },
          [this](Id id, const Error& error, ControlConnections::Ending ending) { ended(id, error, ending); }};
}

void World::join(std::vector<ControlPeer> all, int self, double seconds, Done done) {
  self_ = self;
  living_.assign(all.size(), true);
  peers_.resize(all.size());
  std::vector<AddressBook::Process> addresses;
  for (const ControlPeer& each : all) addresses.push_back({{each.id, each.addresses, each.local_path}, each.host});
  book_.set_processes(std::move(addresses), all[static_cast<std::size_t>(self)].id);
  for (std::size_t process = 0; process < all.size(); ++process) peers_[process].info = std::move(all[process]);
  seen_ = SeenBroadcasts(peers_.size());
  mailbox_.make_room(peers_.size());
  roster_.resize(static_cast<int>(peers_.size()));
  joining_ = std::move(done);
  join_deadline_ = loop_.now() + seconds;
  next_beat_ = loop_.now();
  draw_overlay();
  for (const Early& each : std::exchange(early_, {})) connections_.answer(each.id, judge(each.greeting, each.is_local));
  finish_join();
}

void World::finish_join() {
  if (!joining_) return;
  Status status;
  if (first_death_) {
    status = tl::unexpected(*first_death_);
  } else if (const std::string missing = missing_neighbours(); missing.empty()) {
    joined_ = true;
  } else if (loop_.now() >= join_deadline_) {
    status = fail(ErrorCode::timed_out, fmt::format("no control connection in time with process {}", missing));
  } else {
    return;
  }
  std::exchange(joining_, nullptr)(status);
}

std::string World::missing_neighbours() const {
  std::vector<int> missing;
  for (std::size_t process = 0; process < peers_.size(); ++process)
    if (peers_[process].neighbour && peers_[process].links.empty()) missing.push_back(static_cast<int>(process));
  return fmt::format("{}", fmt::join(missing, ", "));
}

Connector::Answer World::greeted(Id id, const Greeting& greeting, bool is_local) {
  if (self_ >= 0) return judge(greeting, is_local);
  early_.push_back({id, greeting, is_local});
  return Connector::Answer::later();
}

Connector::Answer World::judge(const Greeting& greeting, bool is_local) const {
  const int process = book_.number_of(greeting.from);
  const int to = book_.number_of(greeting.to);
  if (process < 0 || to < 0 || process == self_ || alone_)
    return Connector::Answer::drop(fmt::format("process {} is not of this world", greeting.from.to_string()));
  if (to != self_) return relay(process, to, is_local);
  if (greeting.lifeline && (!peers_[process].living || said_goodbye_)) return Connector::Answer::drop();
  return Connector::Answer::accept(Greeting{peers_[self_].info.id, greeting.from, greeting.lifeline}.encode());
}

void World::opened(Id id, const Greeting& greeting) {
  const int process = book_.number_of(greeting.from);
  if (alone_) return connections_.close(id);
  Peer& peer = peers_[process];
  if (peer.lifeline == id) return;
  if (greeting.lifeline) {
    lifelines_.emplace_back(id, process);
    return;
  }
  if (said_goodbye_ && !peer.begun) return connections_.hang_up(id, goodbye_, kFarewellSeconds);
  if (peer.living) return open_to(process, id);
  acknowledge(process, id);
  if (roster_.left(process)) {
    processes_.emplace_back(id, process);  // it has left, but what it said before may still be to come
    return;
  }
  // It was declared dead, and does not know.
  for (const Frame& absence : absences_) connections_.queue(id, absence);
  connections_.drain(id, kFarewellSeconds);
}

// If this process is on a third host, it relays only to where the peer surely is, so that nobody relays it once more.
Connector::Answer World::relay(int from, int to, bool came_locally) const {
  const Peer& peer = peers_[to];
  const bool is_connected = hears(peer) && peer.link_address;
  const SocketAddress* const connected_at = is_connected ? &peer.info.addresses[*peer.link_address] : nullptr;
  std::vector<Route> routes = book_.forward_routes(from, to, came_locally, connected_at);
  if (!routes.empty()) return Connector::Answer::pass_on(std::move(routes));
  log::info("process {} looks for process {} here, which cannot be reached from here", from, to);
  return Connector::Answer::drop();
}

int World::process_of(Id id) const {
  for (const auto& [open, process] : processes_)
    if (open == id) return process;
  return -1;
}

void World::draw_overlay() {
  if (alone_ || said_goodbye_) return;
  const std::vector<int> drawn = overlay_neighbours(self_, living_);
  for (std::size_t process = 0; process < peers_.size(); ++process) {
    Peer& peer = peers_[process];
    const bool was = std::exchange(peer.neighbour, std::binary_search(drawn.begin(), drawn.end(), process));
    if (peer.neighbour && !was) expect(static_cast<int>(process));
  }
}

void World::watch(int process) {
  Peer& peer = peers_[process];
  const ControlPeer& own = peers_[self_].info;
  if (!peer.living || peer.watched || !book_.share_host(self_, process) || peer.info.pid <= 0 ||
      peer.info.start_time == 0)
    return;
  if (peer.info.pid == own.pid) {
    peer.watched = true;  // another Control of this process
    return;
  }
  if (peer.ended_at) return;
  ProcessWatch watched = watch_process(peer.info.pid, peer.info.start_time);
  if (watched.gone) return process_ended(process);
  if (!watched.descriptor) return;
  auto key = loop_.watch(watched.descriptor.get(), EPOLLIN, [this, process](std::uint32_t) { process_ended(process); });
  if (!key) return;
  peer.process = std::move(watched.descriptor);
  peer.process_key = *key;
  peer.watched = true;
}

void World::process_ended(int process) {
  loop_.unwatch(peers_[process].process_key);
  peers_[process].process.reset();
  // Its goodbye may still lie in the socket; or, where there never was one, be on its way through others.
  const std::vector<Link> links = peers_[process].links;
  for (const Link& link : links) connections_.read_now(link.id);
  if (peers_[process].begun) {
    lost(process, end_of(peers_[process].info), Certainty::known);
  } else {
    peers_[process].ended_at = loop_.now();
  }
}

void World::confirm_ends() {
  for (std::size_t process = 0; process < peers_.size(); ++process) {
    Peer& peer = peers_[process];
    if (!peer.ended_at || loop_.now() < *peer.ended_at + kGoodbyeOnItsWay) continue;
    peer.ended_at.reset();
    lost(static_cast<int>(process), end_of(peer.info), Certainty::known);
  }
}

void World::lost(int process, const std::string& why, Certainty certainty) {
  if (peers_[process].said_goodbye) return learn_goodbye(process, process);
  if (leaving_) return part_from(process, goodbye_);
  declare_dead(process, why, certainty);
}

}  // namespace tutti
