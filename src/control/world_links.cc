// The connections of a world: dialed, watched for silence, and replaced.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/wire.hpp"
#include "control/world.hpp"

namespace tutti {
namespace {

constexpr double kAttemptSeconds = 2.0;      // for the host to answer, and then for the process
constexpr double kStaggerSeconds = 0.25;     // from one attempt to the next, at most
constexpr std::size_t kAttempts = 8;         // at a time
constexpr std::size_t kDetours = 16;         // in a round; the next one takes others
constexpr double kFirstPause = 0.01;         // between attempts; doubles
constexpr double kFirstRedialPause = 0.001;  // a process that ends may still listen for a moment
constexpr double kLongestPause = 0.25;
constexpr double kExpectSeconds = 1.0;  // for a neighbour whose part it is to dial
constexpr double kRedialPause = 0.05;   // where connections end one after another

// Parts of the time after which a silent process is dead.
constexpr double kBeatPart = 0.1;
constexpr double kSilencePart = 0.25;  // a connection is silent
constexpr double kRoundPart = 0.25;    // all addresses are tried once, or all detours of a round
constexpr double kAttemptPart = 0.4;   // an attempt gets no longer
constexpr double kAnswersPart = 0.5;   // is added if its host answers: the process may just be slow

std::string with_trouble(const std::string& why, const std::string& trouble) {
  return trouble.empty() ? why : fmt::format("{} (before that: {})", why, trouble);
}

}  // namespace

void World::open_to(int process, Id id) {
  Peer& peer = peers_[process];
  const Attempt* const ours = peer.dial ? peer.dial->find(id) : nullptr;
  const bool detour = ours != nullptr ? !ours->step.address : connections_.is_local(id);
  if (ours != nullptr) std::erase_if(peer.dial->attempts, [&](const Attempt& attempt) { return attempt.id == id; });
  if (ours != nullptr || (peer.dial && peer.dial->attempts.empty())) end_dial(peer);
  processes_.emplace_back(id, process);
  peer.last_heard = loop_.now();
  peer.links.push_back({id, peer.last_heard, detour});
  peer.trouble.clear();
  peer.stream_ended = false;
  peer.refused_since.reset();
  peer.asked_at.reset();
  if (!detour) note_address(peer, connections_.remote(id));
  acknowledge(process, id);
  send_kept(process, id);
  drop_silent_links(process);
  if (!peer.begun) begin_session(process);
  keep_lifeline(process);
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
  peer.link_address = index;
  peer.next_address = (index + 1) % addresses.size();
}

void World::send_kept(int process, Id id) {
  for (const Frame& frame : peers_[process].session.kept()) connections_.queue(id, frame);
}

void World::acknowledge(int process, Id id) {
  WireWriter out;
  out.put(peers_[process].session.acknowledge());
  connections_.queue(id, encode_frame(ControlFrame::heartbeat, out.take()));
}

void World::heard(Id id) {
  const int process = process_of(id);
  if (process < 0) return;
  Peer& peer = peers_[process];
  peer.last_heard = loop_.now();
  peer.asked_at.reset();
  for (Link& link : peer.links)
    if (link.id == id) link.last_heard = peer.last_heard;
}

void World::ended(Id id, const Error& error, ControlConnections::Ending ending) {
  std::erase_if(early_, [&](const Early& each) { return each.id == id; });
  const auto lifeline =
      std::find_if(lifelines_.begin(), lifelines_.end(), [&](const auto& e) { return e.first == id; });
  if (lifeline != lifelines_.end()) {
    const int process = lifeline->second;
    lifelines_.erase(lifeline);
    if (peers_[process].lifeline == id) peers_[process].lifeline.reset();
    if (ending.in_order) stream_ended(process);
    return;
  }
  if (const int process = process_of(id); process >= 0) {
    Peer& peer = peers_[process];
    const bool detour =
        std::any_of(peer.links.begin(), peer.links.end(), [&](const Link& l) { return l.id == id && l.detour; });
    if (ending.in_order && !detour && peer.living && peer.links.size() == 1) peer.stream_ended = true;
    return link_ended(process, id, error.message);
  }
  for (std::size_t dialed = 0; dialed < peers_.size(); ++dialed) {
    Peer& peer = peers_[dialed];
    const Attempt* const attempt = peer.dial ? peer.dial->find(id) : nullptr;
    if (attempt == nullptr) continue;
    const Step step = attempt->step;
    std::erase_if(peer.dial->attempts, [&](const Attempt& each) { return each.id == id; });
    return attempt_failed(static_cast<int>(dialed), step, error, ending.nobody_listens);
  }
}

void World::misbehaved(Id id, int process) {
  log::warn("process {} broke the rules of the control connection, which ends", process);
  connections_.close(id);
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
  const double delay = std::max(0.0, peer.redial_from - loop_.now());
  peer.redial_from = loop_.now() + delay + kRedialPause;
  if (!peer.dial) return start_dial(process, delay);
  peer.dial->retry_at = std::min(peer.dial->retry_at, loop_.now() + delay);
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
  peer.dial->began = loop_.now() + delay;
  peer.dial->retry_at = peer.dial->began;
  peer.dial->pause = Backoff(peer.begun ? kFirstRedialPause : kFirstPause, kLongestPause);
  peer.dial->refused.resize(peer.info.addresses.size());
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
  const auto& addresses = peer.info.addresses;
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    const std::size_t address = (peer.next_address + at) % addresses.size();
    dial.round.push_back({Route::to(addresses[address]), address});
  }
  if (joined_ || peer.begun || dial.rounds > 0) {
    const std::vector<Route> detours = book_.relay_routes(process, peer.hearers);
    const std::size_t count = std::min(detours.size(), kDetours);
    for (std::size_t at = 0; at < count; ++at)
      dial.round.push_back({detours[(dial.detours + at) % detours.size()], std::nullopt});
    dial.detours += count;
  }
}

double World::patience_of(const Peer& peer) const {
  const bool first_contact = !peer.begun && peer.dial->round.size() == 1;
  return first_contact ? kAttemptSeconds : std::min(kAttemptSeconds, kAttemptPart * heartbeat_timeout_);
}

// How long after an attempt the next one begins.
double World::stagger_of(const Peer& peer, const Step& step) const {
  if (!peer.begun && peer.dial->round.size() == 1) return patience_of(peer);
  const std::size_t addresses = peer.info.addresses.size();
  const std::size_t sharing = step.address ? addresses : std::max<std::size_t>(1, peer.dial->round.size() - addresses);
  return std::min(kStaggerSeconds, kRoundPart * heartbeat_timeout_ / static_cast<double>(sharing));
}

void World::attempt(int process) {
  Peer& peer = peers_[process];
  Dial& dial = *peer.dial;
  const Step step = dial.round[dial.step];
  plan_next_attempt(process, step);
  if (dial.attempts.size() >= kAttempts) {
    connections_.close(dial.attempts.front().id);
    dial.attempts.erase(dial.attempts.begin());
  }
  auto connection = connections_.dial(step.route, {peers_[self_].info.id, peer.info.id}, patience_of(peer));
  if (!connection) return attempt_failed(process, step, connection.error(), false);
  dial.attempts.push_back({*connection, step});
}

void World::plan_next_attempt(int process, const Step& last) {
  Peer& peer = peers_[process];
  Dial& dial = *peer.dial;
  const double now = loop_.now();
  dial.not_before = now;
  dial.retry_at = now + stagger_of(peer, last);
  if (++dial.step < dial.round.size()) return;
  ++dial.rounds;
  begin_round(process);
  // One that is watched may be stopped for long.
  dial.pause.set_longest(peer.begun && peer.watched ? heartbeat_timeout_ : kLongestPause);
  dial.not_before = now + dial.pause.next();
  dial.retry_at = std::max(dial.retry_at, dial.not_before);
}

void World::attempt_failed(int process, const Step& step, const Error& error, bool nobody_listens) {
  Peer& peer = peers_[process];
  Dial& dial = *peer.dial;
  if (!peer.links.empty() && !silent(peer.last_heard)) {
    if (dial.attempts.empty()) peer.dial.reset();
    return;
  }
  const auto address = step.address;
  if (address) dial.refused[*address] = nobody_listens;
  // An address that was not proven may mean another host to this one; that all of them do is not likely. Who joins has
  // listened since before the others knew of it.
  const bool proven = address && *address < peer.proven.size() && peer.proven[*address];
  const bool all_refused = std::find(dial.refused.begin(), dial.refused.end(), false) == dial.refused.end();
  const bool listened = peer.begun || !joined_;
  if (address && listened && nobody_listens && (proven || all_refused)) {
    refused(process, error);
    if (!peer.dial) return;  // it is dead
  }
  if (address || peer.trouble.empty()) peer.trouble = error.message;
  // A process of this host is watched: as long as it lives it may be stopped, but is not dead.
  if (joined_ && !peer.begun && !peer.watched && given_up(process, loop_.now() - dial.began, heartbeat_timeout_))
    return declare_dead(process, fmt::format("it could not be reached: {}", peer.trouble), Certainty::presumed);
  if (dial.attempts.empty()) dial.retry_at = std::min(dial.retry_at, dial.not_before);
}

// The peer may count those that are under way as open; they end there.
void World::end_dial(Peer& peer) {
  const auto dial = std::exchange(peer.dial, std::nullopt);
  for (const Attempt& attempt : dial->attempts) connections_.close(attempt.id);
}

void World::retry_dials() {
  for (std::size_t process = 0; process < peers_.size(); ++process) {
    Peer& peer = peers_[process];
    if (!peer.dial || peer.dial->retry_at > loop_.now()) continue;
    // It has dialed us meanwhile, unless all we have of it is the end of a stream.
    if (!peer.stream_ended && !peer.links.empty() && !silent(peer.last_heard)) {
      peer.dial->retry_at = EventLoop::kNever;
      if (peer.dial->attempts.empty()) peer.dial.reset();
      continue;
    }
    attempt(static_cast<int>(process));
  }
}

bool World::host_answers(const Peer& peer) const {
  return peer.dial && std::any_of(peer.dial->attempts.begin(), peer.dial->attempts.end(), [&](const Attempt& attempt) {
           return attempt.step.address && connections_.is_connected(attempt.id);
         });
}

bool World::silent(double last_heard) const { return loop_.now() - last_heard > heartbeat_timeout_ * kSilencePart; }

void World::beat() {
  if (alone_ || self_ < 0 || loop_.now() < next_beat_) return;
  next_beat_ = loop_.now() + heartbeat_timeout_ * kBeatPart;
  for (std::size_t process = 0; process < peers_.size(); ++process)
    if (peers_[process].begun && peers_[process].living) beat_to(static_cast<int>(process));
}

void World::beat_to(int process) {
  Peer& peer = peers_[process];
  if (said_goodbye_ && peer.session.kept().empty()) return;
  const double unheard = loop_.now() - peer.last_heard;
  // A process of this host that is stopped is silent, but its descriptor would tell if it were dead.
  const double limit = heartbeat_timeout_ * (host_answers(peer) ? 1 + kAnswersPart : 1);
  if (!peer.watched && given_up(process, unheard, limit))
    return lost(process, with_trouble(fmt::format("silent for {:.1f} s", unheard), peer.trouble), Certainty::presumed);
  if (peer.session.overflowed() && silent(peer.last_heard))
    return lost(process, fmt::format("it is silent, and {} MB wait for it", Session::kLimit >> 20),
                Certainty::presumed);
  drop_silent_links(process);
  keep_lifeline(process);
  if (silent(peer.last_heard) && !peer.dial) {
    log::info("process {} is silent for {:.1f} s, another connection is opened", process, unheard);
    start_dial(process, 0);
  }
  for (const Link& link : peer.links)
    if (connections_.idle(link.id)) acknowledge(process, link.id);
}

// Where others speak: while all are silent, each is a chance.
void World::drop_silent_links(int process) {
  if (silent(peers_[process].last_heard)) return;
  const std::vector<Link> links = peers_[process].links;
  for (const Link& link : links) {
    if (!silent(link.last_heard)) continue;
    connections_.close(link.id);
    remove_link(process, link.id);
  }
}

}  // namespace tutti
