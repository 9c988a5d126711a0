// How sure it is that a process is dead.
//
// Two processes of different hosts hold, beside the connections that carry their session, a *lifeline*: a connection on
// which nothing is ever said. When a process ends, its kernel closes the lifeline in order. (It resets the others if
// something lies unread in them, and anyone on the way can send a reset.) So the end of a stream, and then an address
// at which nobody listens, prove a death. A refusal alone does not: a firewall may reject, or another host have the
// address now.
//
// Without proof there is only silence. Others are asked before a death is presumed: a process that somebody hears
// lives, and whoever hears it passes connections on to it.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/wire.hpp"
#include "control/world.hpp"

namespace tutti {
namespace {

constexpr double kLifelineSeconds = 2.0;  // to open one
constexpr std::size_t kHearers = 4;       // that are remembered

// Parts of the time after which a silent process is dead.
constexpr double kAskPart = 0.6;       // others are asked
constexpr double kAskAgainPart = 0.1;  // and again
constexpr double kAnswerPart = 0.1;    // they get to answer
constexpr double kBelievePart = 0.5;   // an answer counts
constexpr double kRefusedPart = 0.05;  // nobody listens at any of its addresses, and nobody hears it

}  // namespace

bool World::hears(const Peer& peer) const {
  return peer.living && peer.begun && !peer.links.empty() && !silent(peer.last_heard);
}

// Whether a process that this one has not heard for so long counts as dead.
bool World::given_up(int process, double unheard, double limit) {
  Peer& peer = peers_[process];
  const double now = loop_.now();
  if (unheard <= limit * kAskPart) return false;
  if (!peer.asked_at || now >= peer.ask_again_at) ask_about(process);
  const bool somebody_to_ask =
      std::any_of(peers_.begin(), peers_.end(), [&](const Peer& other) { return &other != &peer && hears(other); });
  const bool answered = !somebody_to_ask || now >= *peer.asked_at + kAnswerPart * heartbeat_timeout_;
  return unheard > limit && answered && now >= peer.heard_elsewhere_until;
}

void World::ask_about(int process) {
  Peer& peer = peers_[process];
  if (!peer.asked_at) peer.asked_at = loop_.now();
  peer.ask_again_at = loop_.now() + kAskAgainPart * heartbeat_timeout_;
  say_opinion(process, false);
}

void World::say_opinion(int process, bool hears) {
  WireWriter out;
  out.put(static_cast<std::uint32_t>(self_));
  out.put(next_broadcast_++);
  out.put(static_cast<std::uint32_t>(process));
  out.put(static_cast<std::uint8_t>(hears ? 1 : 0));
  flood(encode_frame(ControlFrame::opinion, out.take()));
}

// Opinions are of use at once or never: new neighbours do not get those of before.
void World::received_opinion(int from, std::span<const std::byte> payload) {
  WireReader in(payload);
  const auto origin = in.get<std::uint32_t>();
  const auto number = in.get<std::uint64_t>();
  const auto process = in.get<std::uint32_t>();
  const bool heard = in.get<std::uint8_t>() != 0;
  if (!in.complete() || origin >= peers_.size() || process >= peers_.size()) return;
  if (static_cast<int>(origin) == self_ || !seen_.first_time(static_cast<int>(origin), number)) return;
  flood(encode_frame(ControlFrame::opinion, payload), from);
  Peer& peer = peers_[process];
  const double now = loop_.now();
  if (heard) {
    peer.heard_elsewhere_until = now + kBelievePart * heartbeat_timeout_;
    std::erase(peer.hearers, static_cast<int>(origin));
    peer.hearers.insert(peer.hearers.begin(), static_cast<int>(origin));
    if (peer.hearers.size() > kHearers) peer.hearers.pop_back();
    return;
  }
  // One answer is enough for all who ask at the same time.
  if (!hears(peer) || now < peer.vouched_at + kAnswerPart / 4 * heartbeat_timeout_) return;
  peer.vouched_at = now;
  say_opinion(static_cast<int>(process), true);
}

// The lower one opens it, beside a connection that needs nobody else.
void World::keep_lifeline(int process) {
  Peer& peer = peers_[process];
  if (peer.lifeline || self_ > process || said_goodbye_ || book_.share_host(self_, process)) return;
  if (!peer.link_address || !hears(peer)) return;
  const Route route = Route::to(peer.info.addresses[*peer.link_address]);
  auto dialed = connections_.dial(route, {peers_[self_].info.id, peer.info.id, true}, kLifelineSeconds);
  if (!dialed) return;
  peer.lifeline = *dialed;
  lifelines_.emplace_back(*dialed, process);
}

void World::drop_lifeline(Peer& peer) {
  if (peer.lifeline) connections_.close(*peer.lifeline);
  peer.lifeline.reset();
}

// Proof of half a death. What it said last is read first: it may have been goodbye.
void World::stream_ended(int process) {
  const std::vector<Link> links = peers_[process].links;
  for (const Link& link : links) connections_.read_now(link.id);
  Peer& peer = peers_[process];
  if (!peer.living || peer.said_goodbye || said_goodbye_) return;
  peer.stream_ended = true;
  if (!peer.dial) return start_dial(process, 0);
  peer.dial->retry_at = loop_.now();
}

// Nobody listens at one of its addresses that is surely its own, or at all of them.
void World::refused(int process, const Error& error) {
  Peer& peer = peers_[process];
  const std::string why =
      peer.trouble.empty() ? error.message : fmt::format("{} (before that: {})", error.message, peer.trouble);
  if (peer.stream_ended) return lost(process, why, Certainty::known);
  if (!joined_) return lost(process, why, Certainty::presumed);
  if (!peer.refused_since) peer.refused_since = loop_.now();
  if (given_up(process, loop_.now() - *peer.refused_since, kRefusedPart * heartbeat_timeout_))
    lost(process, why, Certainty::presumed);
}

}  // namespace tutti
