// The connections of a world: dialed, watched for silence, and replaced.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.hpp"
#include "control/wire.hpp"
#include "control/world.hpp"

namespace tutti {
namespace {

constexpr double kAttemptSeconds = 2.0;       // on one way, before the next is tried
constexpr double kQuickAttemptSeconds = 0.5;  // the same where other ways or a session wait; later rounds
constexpr double kLaterAttemptSeconds = 1.0;  // take longer, for those who are far away
constexpr std::size_t kDetours = 16;          // in a round; the next one takes others
constexpr double kFirstPause = 0.01;          // between attempts; doubles
constexpr double kFirstRedialPause = 0.001;   // a process that ends may still listen for a moment
constexpr double kLongestPause = 0.25;
constexpr double kExpectSeconds = 1.0;  // for a neighbour whose part it is to dial
constexpr double kRedialPause = 0.05;   // where connections end one after another

// Parts of the time after which a silent process is dead.
constexpr double kBeatPart = 0.1;
constexpr double kSilencePart = 0.25;  // a connection is silent
constexpr double kRoundPart = 0.5;     // all ways are tried once; detours get half of it

std::string with_trouble(const std::string& why, const std::string& trouble) {
  return trouble.empty() ? why : fmt::format("{} (before that: {})", why, trouble);
}

}  // namespace

void World::open_to(int process, Id id) {
  Peer& peer = peers_[process];
  const bool ours = peer.dial && peer.dial->connection == id;
  const bool detour = ours ? !peer.dial->round[peer.dial->step].address : switchboard_.by_door(id);
  if (ours || (peer.dial && !peer.dial->connection)) peer.dial.reset();
  processes_.emplace_back(id, process);
  peer.last_heard = reactor_.now();
  peer.links.push_back({id, peer.last_heard});
  peer.trouble.clear();
  if (!detour) note_address(peer, switchboard_.remote(id));
  acknowledge(process, id);
  send_kept(process, id);
  drop_silent_links(process);
  if (!peer.begun) begin_session(process);
  watch(process);
  finish_join();
}

void World::begin_session(int process) {
  Peer& peer = peers_[process];
  peer.begun = true;
  for (const Frame& absence : absences_) entrust(process, absence);
  for (const Frame& frame : history_.frames()) entrust(process, frame);
  for (const Frame& frame : std::exchange(peer.pending, {})) entrust(process, frame);
}

// A peer that dialed us comes from one of its addresses, at another port. So does a process near it that passes it on,
// where the two share the address.
void World::note_address(Peer& peer, const SocketAddress& remote) {
  const auto& addresses = peer.info.addresses;
  auto found = std::find(addresses.begin(), addresses.end(), remote);
  if (found == addresses.end())
    found = std::find_if(addresses.begin(), addresses.end(),
                         [&](const SocketAddress& address) { return address.host() == remote.host(); });
  if (found == addresses.end()) return;
  const auto index = static_cast<std::size_t>(found - addresses.begin());
  peer.proven.resize(addresses.size());
  peer.proven[index] = true;
  peer.next_address = (index + 1) % addresses.size();
}

void World::send_kept(int process, Id id) {
  for (const Frame& frame : peers_[process].session.kept()) switchboard_.queue(id, frame);
}

void World::acknowledge(int process, Id id) {
  WireWriter out;
  out.put(peers_[process].session.acknowledge());
  switchboard_.queue(id, encode_frame(ControlFrame::heartbeat, out.take()));
}

void World::heard(Id id) {
  const int process = process_of(id);
  if (process < 0) return;
  Peer& peer = peers_[process];
  peer.last_heard = reactor_.now();
  for (Link& link : peer.links)
    if (link.id == id) link.last_heard = peer.last_heard;
}

void World::ended(Id id, const Error& error, bool nobody_listens) {
  std::erase_if(early_, [&](const auto& entry) { return entry.first == id; });
  if (const int process = process_of(id); process >= 0) return link_ended(process, id, error.message);
  for (std::size_t dialed = 0; dialed < peers_.size(); ++dialed)
    if (peers_[dialed].dial && peers_[dialed].dial->connection == id)
      return attempt_failed(static_cast<int>(dialed), error, nobody_listens);
}

void World::misbehaved(Id id, int process) {
  log::warn("process {} broke the rules of the control connection, which ends", process);
  switchboard_.close(id);
  link_ended(process, id, "it broke the rules of the control connection");
}

// The process may live: only its process watch, or an address at which nobody listens, or long silence tell.
void World::link_ended(int process, Id id, const std::string& why) {
  Peer& peer = peers_[process];
  remove_link(process, id);
  if (!peer.living || !peer.links.empty()) return;
  if (peer.said_goodbye) return learn_goodbye(process, process);
  if (said_goodbye_ && peer.session.kept().empty()) return;
  peer.trouble = why;
  log::info("the connection with process {} ended, another is opened: {}", process, why);
  const double delay = std::max(0.0, peer.redial_from - reactor_.now());
  peer.redial_from = reactor_.now() + delay + kRedialPause;
  if (!peer.dial) return start_dial(process, delay);
  if (!peer.dial->connection) peer.dial->retry_at = std::min(peer.dial->retry_at, reactor_.now() + delay);
}

void World::remove_link(int process, Id id) {
  Peer& peer = peers_[process];
  std::erase_if(processes_, [&](const auto& entry) { return entry.first == id; });
  const bool carried = !peer.links.empty() && peer.links.back().id == id;
  std::erase_if(peer.links, [&](const Link& link) { return link.id == id; });
  if (carried && !peer.links.empty()) send_kept(process, peer.links.back().id);
}

void World::expect(int process) {
  watch(process);
  Peer& peer = peers_[process];
  if (!peer.living || peer.begun || peer.dial) return;
  if (self_ < process) return start_dial(process, 0);
  // The lower one dials; but it may be dead with all who could have told.
  start_dial(process, std::min(kExpectSeconds, heartbeat_timeout_ / 2));
}

void World::start_dial(int process, double delay) {
  Peer& peer = peers_[process];
  if (peer.info.addresses.empty()) return declare_dead(process, "it has no address", Certainty::presumed);
  peer.dial = Dial();
  peer.dial->began = reactor_.now() + delay;
  peer.dial->retry_at = peer.dial->began;
  peer.dial->pause = peer.begun ? kFirstRedialPause : kFirstPause;
  begin_round(process);
  if (delay == 0) attempt(process);
}

// Its own addresses first: a connection that needs nobody else is the better one, and one that is refused there tells
// of a death. While a world comes together, whoever does not answer is more likely slow.
void World::begin_round(int process) {
  Peer& peer = peers_[process];
  Dial& dial = *peer.dial;
  dial.round.clear();
  dial.step = 0;
  dial.refused = 0;
  const auto& addresses = peer.info.addresses;
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    const std::size_t address = (peer.next_address + at) % addresses.size();
    dial.round.push_back({{addresses[address], {}}, address});
  }
  if (joined_ || peer.begun || dial.rounds > 0) {
    const std::vector<ControlWay> detours = detours_to(process);
    const std::size_t count = std::min(detours.size(), kDetours);
    for (std::size_t at = 0; at < count; ++at)
      dial.round.push_back({detours[(dial.detours + at) % detours.size()], std::nullopt});
    dial.detours += count;
  }
}

// With the step that is next.
double World::patience_of(const Peer& peer) const {
  const Dial& dial = *peer.dial;
  if (!peer.begun && dial.round.size() == 1) return kAttemptSeconds;
  const std::size_t addresses = peer.info.addresses.size();
  const std::size_t detours = dial.round.size() - addresses;
  const double part = heartbeat_timeout_ * (detours == 0 ? kRoundPart : kRoundPart / 2);
  const double sharing = static_cast<double>(dial.round[dial.step].address ? addresses : detours);
  double seconds = std::min(kQuickAttemptSeconds, part / sharing);
  for (int round = 0; round < dial.rounds && seconds < kLaterAttemptSeconds; ++round) seconds *= 2;
  return std::min(seconds, kLaterAttemptSeconds);
}

void World::attempt(int process) {
  Peer& peer = peers_[process];
  Dial& dial = *peer.dial;
  auto connection =
      switchboard_.dial(dial.round[dial.step].way, {peers_[self_].info.id, peer.info.id}, patience_of(peer));
  if (!connection) return attempt_failed(process, connection.error(), false);
  dial.connection = *connection;
}

void World::attempt_failed(int process, const Error& error, bool nobody_listens) {
  Peer& peer = peers_[process];
  Dial& dial = *peer.dial;
  dial.connection.reset();
  if (!peer.links.empty() && !silent(peer.last_heard)) return peer.dial.reset();
  const auto address = dial.round[dial.step].address;
  if (address && nobody_listens) ++dial.refused;
  // An address that was not proven may mean another host to this one; that all of them do is not likely. Who joins has
  // listened since before the others knew of it.
  const bool proven = address && *address < peer.proven.size() && peer.proven[*address];
  const bool listened = peer.begun || !joined_;
  if (address && listened && nobody_listens && (proven || dial.refused == peer.info.addresses.size()))
    return lost(process, with_trouble(error.message, peer.trouble), Certainty::known);
  if (address || peer.trouble.empty()) peer.trouble = error.message;
  // A process of this host is watched: as long as it lives it may be stopped, but is not dead.
  if (joined_ && !peer.begun && !peer.watched && reactor_.now() - dial.began >= heartbeat_timeout_)
    return declare_dead(process, fmt::format("it could not be reached: {}", peer.trouble), Certainty::presumed);
  next_step(process);
}

void World::next_step(int process) {
  Peer& peer = peers_[process];
  Dial& dial = *peer.dial;
  dial.retry_at = reactor_.now();
  if (++dial.step < dial.round.size()) return;
  ++dial.rounds;
  begin_round(process);
  dial.retry_at += dial.pause;
  // One that is watched may be stopped for long.
  dial.pause = std::min(2 * dial.pause, peer.begun && peer.watched ? heartbeat_timeout_ : kLongestPause);
}

void World::retry_dials() {
  for (std::size_t process = 0; process < peers_.size(); ++process) {
    const auto& dial = peers_[process].dial;
    if (dial && !dial->connection && dial->retry_at <= reactor_.now()) attempt(static_cast<int>(process));
  }
}

bool World::silent(double last_heard) const { return reactor_.now() - last_heard > heartbeat_timeout_ * kSilencePart; }

void World::beat() {
  if (alone_ || self_ < 0 || reactor_.now() < next_beat_) return;
  next_beat_ = reactor_.now() + heartbeat_timeout_ * kBeatPart;
  for (std::size_t process = 0; process < peers_.size(); ++process)
    if (peers_[process].begun && peers_[process].living) beat_to(static_cast<int>(process));
}

void World::beat_to(int process) {
  Peer& peer = peers_[process];
  if (said_goodbye_ && peer.session.kept().empty()) return;
  const double unheard = reactor_.now() - peer.last_heard;
  // A process of this host that is stopped is silent, but its descriptor would tell if it were dead.
  if (!peer.watched && unheard > heartbeat_timeout_)
    return lost(process, with_trouble(fmt::format("silent for {:.1f} s", unheard), peer.trouble), Certainty::presumed);
  drop_silent_links(process);
  if (silent(peer.last_heard) && !peer.dial) {
    log::info("process {} is silent for {:.1f} s, another connection is opened", process, unheard);
    start_dial(process, 0);
  }
  for (const Link& link : peer.links)
    if (switchboard_.idle(link.id)) acknowledge(process, link.id);
}

// Where others speak: while all are silent, each is a chance.
void World::drop_silent_links(int process) {
  if (silent(peers_[process].last_heard)) return;
  const std::vector<Link> links = peers_[process].links;
  for (const Link& link : links) {
    if (!silent(link.last_heard)) continue;
    switchboard_.close(link.id);
    remove_link(process, link.id);
  }
}

}  // namespace tutti
