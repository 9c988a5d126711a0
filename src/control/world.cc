#include "control/world.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>

#include "base/log.hpp"

namespace tutti {
namespace {

constexpr double kAttemptSeconds = 2.0;  // on one address, before the next is tried
constexpr double kLongestPause = 0.25;   // between attempts
constexpr double kExpectSeconds = 1.0;   // for a neighbour whose part it is to dial

std::string end_of(const ControlPeer& peer) { return fmt::format("process {} of this host has ended", peer.pid); }

}  // namespace

World::World(Reactor& reactor, Switchboard& switchboard, Mailbox& mailbox, Roster& roster, News news,
             double heartbeat_timeout)
    : reactor_(reactor),
      switchboard_(switchboard),
      mailbox_(mailbox),
      roster_(roster),
      news_(std::move(news)),
      heartbeat_timeout_(heartbeat_timeout) {}

Switchboard::Events World::events() {
  return {[this](Id id, const Greeting& greeting) { greeted(id, greeting); },
          [this](Id id, ControlFrame kind, std::span<const std::byte> payload) { received(id, kind, payload); },
          [this](Id id, const Error& error) { ended(id, error); }};
}

void World::join(std::vector<ControlPeer> all, int self, double seconds, Done done) {
  self_ = self;
  living_.assign(all.size(), true);
  peers_.resize(all.size());
  for (std::size_t process = 0; process < all.size(); ++process) peers_[process].info = std::move(all[process]);
  seen_ = SeenBroadcasts(peers_.size());
  mailbox_.make_room(peers_.size());
  roster_.resize(static_cast<int>(peers_.size()));
  joining_ = std::move(done);
  join_deadline_ = reactor_.now() + seconds;
  next_beat_ = reactor_.now();
  draw_overlay();
  for (const auto& [id, greeting] : std::exchange(early_, {})) admit(id, greeting);
  finish_join();
}

void World::finish_join() {
  if (!joining_) return;
  Status status;
  if (first_death_) {
    status = tl::unexpected(*first_death_);
  } else if (const std::string missing = missing_neighbours(); missing.empty()) {
    joined_ = true;
  } else if (reactor_.now() >= join_deadline_) {
    status = fail(ErrorCode::timed_out, fmt::format("no control connection in time with process {}", missing));
  } else {
    return;
  }
  std::exchange(joining_, nullptr)(status);
}

std::string World::missing_neighbours() const {
  std::vector<int> missing;
  for (std::size_t process = 0; process < peers_.size(); ++process)
    if (peers_[process].neighbour && peers_[process].open.empty()) missing.push_back(static_cast<int>(process));
  return fmt::format("{}", fmt::join(missing, ", "));
}

void World::greeted(Id id, const Greeting& greeting) {
  if (self_ < 0) {
    early_.emplace_back(id, greeting);
  } else {
    admit(id, greeting);
  }
}

void World::admit(Id id, const Greeting& greeting) {
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.info.id == greeting.from; });
  if (found == peers_.end() || greeting.to != peers_[self_].info.id || alone_) {
    log::warn("a control connection from process {} is not meant for this world", greeting.from.to_string());
    return switchboard_.close(id);
  }
  const int process = static_cast<int>(found - peers_.begin());
  if (process == self_) return switchboard_.close(id);
  if (!found->dial || found->dial->connection != id) switchboard_.welcome(id, {peers_[self_].info.id, greeting.from});
  if (found->living) return open_to(process, id);
  if (roster_.left(process)) {
    processes_.emplace_back(id, process);  // it has left, but what it said before is still to come
    return;
  }
  // It was declared dead, and does not know.
  for (const Frame& absence : absences_) switchboard_.queue(id, absence);
  switchboard_.drain(id, kFarewellSeconds);
}

void World::open_to(int process, Id id) {
  Peer& peer = peers_[process];
  if (peer.dial && peer.dial->connection == id) peer.dial.reset();
  if (peer.dial && !peer.dial->connection) peer.dial.reset();
  processes_.emplace_back(id, process);
  peer.open.push_back(id);
  peer.last_heard = reactor_.now();
  if (peer.open.size() == 1) {
    for (const Frame& absence : absences_) switchboard_.queue(id, absence);
    for (const Frame& frame : history_.frames()) switchboard_.queue(id, frame);
    for (const Frame& frame : std::exchange(peer.pending, {})) switchboard_.queue(id, frame);
  }
  watch(process);
  finish_join();
}

int World::process_of(Id id) const {
  for (const auto& [open, process] : processes_)
    if (open == id) return process;
  return -1;
}

void World::ended(Id id, const Error& error) {
  std::erase_if(early_, [&](const auto& entry) { return entry.first == id; });
  const int process = process_of(id);
  if (process >= 0) {
    std::erase_if(processes_, [&](const auto& entry) { return entry.first == id; });
    std::erase(peers_[process].open, id);
    return lost(process, error.message);
  }
  for (std::size_t dialed = 0; dialed < peers_.size(); ++dialed)
    if (peers_[dialed].dial && peers_[dialed].dial->connection == id)
      return attempt_failed(static_cast<int>(dialed), error);
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

void World::expect(int process) {
  watch(process);
  Peer& peer = peers_[process];
  if (!peer.living || !peer.open.empty() || peer.dial) return;
  if (self_ < process) return start_dial(process, 0);
  // The lower one dials; but it may be dead with all who could have told.
  if (joined_) start_dial(process, std::min(kExpectSeconds, heartbeat_timeout_ / 2));
}

void World::start_dial(int process, double delay) {
  Dial dial;
  dial.began = reactor_.now() + delay;
  dial.retry_at = dial.began;
  peers_[process].dial = dial;
  if (delay == 0) attempt(process);
}

void World::attempt(int process) {
  Peer& peer = peers_[process];
  if (peer.info.addresses.empty()) return declare_dead(process, "it has no address");
  Dial& dial = *peer.dial;
  const SocketAddress& address = peer.info.addresses[dial.address % peer.info.addresses.size()];
  auto connection = switchboard_.dial(address, {peers_[self_].info.id, peer.info.id}, kAttemptSeconds);
  if (!connection) return attempt_failed(process, connection.error());
  dial.connection = *connection;
}

void World::attempt_failed(int process, const Error& error) {
  Peer& peer = peers_[process];
  Dial& dial = *peer.dial;
  dial.connection.reset();
  if (!peer.open.empty()) return peer.dial.reset();
  const double now = reactor_.now();
  // A process of this host is watched: as long as it lives it may be stopped, but is not dead.
  if (joined_ && !peer.watched && now - dial.began >= heartbeat_timeout_)
    return declare_dead(process, fmt::format("it could not be reached: {}", error.message));
  const bool tried_all = ++dial.address % peer.info.addresses.size() == 0;
  dial.retry_at = now;
  if (!tried_all) return;
  dial.retry_at = now + dial.pause;
  dial.pause = std::min(2 * dial.pause, kLongestPause);
}

void World::retry_dials() {
  for (std::size_t process = 0; process < peers_.size(); ++process) {
    const auto& dial = peers_[process].dial;
    if (dial && !dial->connection && dial->retry_at <= reactor_.now()) attempt(static_cast<int>(process));
  }
}

void World::watch(int process) {
  Peer& peer = peers_[process];
  const ControlPeer& own = peers_[self_].info;
  const bool same_host = peer.info.host == own.host && !own.host.empty();
  if (!peer.living || peer.watched || !same_host || peer.info.pid <= 0 || peer.info.start_time == 0) return;
  if (peer.info.pid == own.pid) {
    peer.watched = true;  // another Control of this process
    return;
  }
  if (peer.ended_at) return;
  ProcessWatch watched = watch_process(peer.info.pid, peer.info.start_time);
  if (watched.gone) return process_ended(process);
  if (!watched.descriptor) return;
  auto key =
      reactor_.watch(watched.descriptor.get(), EPOLLIN, [this, process](std::uint32_t) { process_ended(process); });
  if (!key) return;
  peer.process = std::move(watched.descriptor);
  peer.process_key = *key;
  peer.watched = true;
}

void World::process_ended(int process) {
  reactor_.unwatch(peers_[process].process_key);
  peers_[process].process.reset();
  // Its goodbye may still lie in the socket; or, without a connection, be on its way through others.
  const std::vector<Id> open = peers_[process].open;
  for (const Id id : open) switchboard_.read_now(id);
  if (open.empty()) {
    peers_[process].ended_at = reactor_.now();
  } else {
    lost(process, end_of(peers_[process].info));
  }
}

void World::confirm_ends() {
  for (std::size_t process = 0; process < peers_.size(); ++process) {
    Peer& peer = peers_[process];
    if (!peer.ended_at || reactor_.now() < *peer.ended_at + kGoodbyeOnItsWay) continue;
    peer.ended_at.reset();
    lost(static_cast<int>(process), end_of(peer.info));
  }
}

void World::lost(int process, const std::string& why) {
  if (peers_[process].said_goodbye) return learn_goodbye(process, process);
  declare_dead(process, why);
}

}  // namespace tutti
