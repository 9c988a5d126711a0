// What travels through a world: messages, broadcasts, news of deaths and goodbyes.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/wire.hpp"
#include "control/world.hpp"

namespace tutti {
namespace {

std::vector<std::byte> encode_death(int process, const Death& death) {
  WireWriter out;
  out.put(static_cast<std::uint32_t>(process));
  out.put(death.certainty);
  out.put_text(death.error.message);
  return encode_frame(ControlFrame::death, out.take());
}

std::vector<std::byte> encode_goodbye(int process) {
  WireWriter out;
  out.put(static_cast<std::uint32_t>(process));
  return encode_frame(ControlFrame::left, out.take());
}

}  // namespace

void World::send(int process, std::uint64_t topic, std::span<const std::byte> bytes) {
  if (process == self_) return mailbox_.deliver(self_, topic, bytes);
  WireWriter out;
  out.put(topic);
  out.put_raw(bytes);
  post(process, encode_frame(ControlFrame::message, out.take()));
}

void World::post(int process, Frame frame) {
  Peer& peer = peers_[process];
  if (!peer.living || alone_ || said_goodbye_) return;
  if (peer.begun) return entrust(process, frame);
  peer.pending.push_back(std::move(frame));
  const bool dials_us = peer.neighbour && process < self_;
  if (!peer.dial && !dials_us) {
    watch(process);
    if (peer.living) start_dial(process, 0);
  }
}

void World::broadcast(std::uint64_t topic, std::span<const std::byte> bytes, const std::vector<int>& to) {
  std::vector<bool> receivers(peers_.size(), to.empty());
  for (const int process : to) receivers[process] = true;
  WireWriter out;
  out.put(static_cast<std::uint32_t>(self_));
  out.put(next_broadcast_++);
  out.put(topic);
  out.put_set(receivers);
  out.put_raw(bytes);
  Frame frame = encode_frame(ControlFrame::broadcast, out.take());
  flood(frame);
  history_.add(std::move(frame));
}

void World::flood(const Frame& frame, int except) {
  if (alone_ || said_goodbye_) return;
  for (std::size_t process = 0; process < peers_.size(); ++process)
    if (static_cast<int>(process) != except && peers_[process].begun) entrust(static_cast<int>(process), frame);
}

void World::entrust(int process, const Frame& frame) {
  Peer& peer = peers_[process];
  if (!peer.living) return;
  const Frame& kept = peer.session.push(frame);
  if (!peer.links.empty()) connections_.queue(peer.links.back().id, kept);
}

void World::received(Id id, ControlFrame kind, std::span<const std::byte> payload) {
  const int from = process_of(id);
  if (from < 0 || alone_) return;
  Peer& peer = peers_[from];
  if (is_numbered(kind)) return received_numbered(id, from, kind, payload);
  if (kind != ControlFrame::heartbeat) return;
  WireReader in(payload);
  const auto number = in.get<std::uint64_t>();
  if (!in.complete() || !peer.session.acknowledged(number)) misbehaved(id, from);
}

void World::received_numbered(Id id, int from, ControlFrame kind, std::span<const std::byte> payload) {
  WireReader in(payload);
  const auto number = in.get<std::uint64_t>();
  const bool last_words = number == 0 && (kind == ControlFrame::death || kind == ControlFrame::left);
  if (in.ok() && last_words) return take(from, kind, in.rest());
  if (!in.ok() || number == 0) return misbehaved(id, from);
  const auto arrival = peers_[from].session.arrived(number, payload.size());
  if (arrival == Session::Arrival::gap) return misbehaved(id, from);
  if (arrival == Session::Arrival::next) take(from, kind, in.rest());
  if (peers_[from].session.owes_acknowledgement()) acknowledge(from, id);
}

void World::take(int from, ControlFrame kind, std::span<const std::byte> payload) {
  if (said_goodbye_ && kind != ControlFrame::left) return;
  WireReader in(payload);
  switch (kind) {
    case ControlFrame::message: {
      const auto topic = in.get<std::uint64_t>();
      if (in.ok()) mailbox_.deliver(from, topic, in.rest());
      return;
    }
    case ControlFrame::broadcast:
      return received_broadcast(from, payload);
    case ControlFrame::death:
      return received_death(payload);
    case ControlFrame::left: {
      const auto process = in.get<std::uint32_t>();
      if (in.complete() && process < peers_.size()) learn_goodbye(static_cast<int>(process), from);
      return;
    }
    case ControlFrame::opinion:
      return received_opinion(from, payload);
    case ControlFrame::heartbeat:
      return;
  }
}

void World::received_broadcast(int from, std::span<const std::byte> payload) {
  WireReader in(payload);
  const auto origin = in.get<std::uint32_t>();
  const auto number = in.get<std::uint64_t>();
  const auto topic = in.get<std::uint64_t>();
  const auto receivers = in.get_set(peers_.size());
  if (!in.ok() || origin >= peers_.size() || static_cast<int>(origin) == self_) return;
  if (!seen_.first_time(static_cast<int>(origin), number)) return;
  Frame frame = encode_frame(ControlFrame::broadcast, payload);
  flood(frame, from);  // passed on first: the handler may take its time, or its life
  history_.add(std::move(frame));
  if (receivers[self_]) mailbox_.deliver(static_cast<int>(origin), topic, in.rest());
}

void World::received_death(std::span<const std::byte> payload) {
  WireReader in(payload);
  const auto process = in.get<std::uint32_t>();
  Death death;
  death.certainty = in.get<Certainty>() == Certainty::known ? Certainty::known : Certainty::presumed;
  death.error.code = ErrorCode::rank_died;
  death.error.message = in.get_text();
  death.error.peer = static_cast<int>(process);
  if (in.complete() && process < peers_.size()) learn_death(static_cast<int>(process), std::move(death));
}

void World::declare_dead(int process, const std::string& why, Certainty certainty) {
  if (!peers_[process].living || alone_ || leaving_) return;
  Death death;
  death.certainty = certainty;
  death.error.code = ErrorCode::rank_died;
  death.error.message =
      fmt::format("process {} {}: {}", process, certainty == Certainty::known ? "died" : "is presumed dead", why);
  death.error.peer = process;
  log::warn("{}", death.error.message);
  learn_death(process, std::move(death));
}

void World::learn_death(int process, Death death) {
  Peer& peer = peers_[process];
  if (alone_) return;
  if (!peer.living) return confirm_death(process, std::move(death));
  absences_.push_back(encode_death(process, death));
  roster_.set_dead(process, death);
  if (process == self_) {
    log::error("the other processes declared this one dead: {}", death.error.message);
    leave_alone(absences_.back());
  } else {
    flood(absences_.back());  // to the dead one too: it may live, and must know
    part_from(process, absences_.back());
  }
  if (!first_death_) first_death_ = death.error;
  news_.died(process, death);
  draw_overlay();
  finish_join();
}

// Of a process that counts as dead already: only that it is certain is news.
void World::confirm_death(int process, Death death) {
  const auto before = roster_.death_of(process);
  if (!before || before->certainty == Certainty::known || death.certainty != Certainty::known) return;
  absences_.push_back(encode_death(process, death));
  roster_.set_dead(process, death);
  flood(absences_.back());
  news_.died(process, death);
}

void World::learn_goodbye(int process, int from) {
  if (!peers_[process].living || alone_ || process == self_) return;
  if (from != process && !peers_[process].links.empty()) {
    peers_[process].said_goodbye = true;
    return;
  }
  if (said_goodbye_) return part_from(process, goodbye_);
  absences_.push_back(encode_goodbye(process));
  roster_.set_left(process);
  flood(absences_.back());
  part_from(process, absences_.back());
  news_.left(process);
  draw_overlay();
  finish_join();
}

void World::part_from(int process, const Frame& last_words) {
  Peer& peer = peers_[process];
  peer.living = false;
  living_[process] = false;
  book_.remove(process);
  peer.pending.clear();
  peer.ended_at.reset();
  std::erase_if(processes_, [&](const auto& entry) { return entry.second == process; });
  const std::vector<Link> links = std::exchange(peer.links, {});
  for (const Link& link : links) {
    acknowledge(process, link.id);  // one that leaves waits for it
    connections_.drain(link.id, kFarewellSeconds);
  }
  const auto dial = std::exchange(peer.dial, std::nullopt);
  // Last words on a second connection could overtake what the first one carries.
  for (const Attempt& attempt : dial ? dial->attempts : std::vector<Attempt>()) {
    if (links.empty()) {
      connections_.hang_up(attempt.id, last_words, kFarewellSeconds);
    } else {
      connections_.close(attempt.id);
    }
  }
  peer.session.forget_kept();
  drop_lifeline(peer);
  for (const auto& [id, owner] : std::vector(lifelines_))
    if (owner == process) connections_.close(id);
  std::erase_if(lifelines_, [&](const auto& entry) { return entry.second == process; });
  if (peer.process) {
    loop_.unwatch(peer.process_key);
    peer.process.reset();
  }
}

void World::leave_alone(const Frame& last_words) {
  alone_ = true;
  connections_.stop_listening();
  for (std::size_t process = 0; process < peers_.size(); ++process) part_from(static_cast<int>(process), last_words);
}

void World::leave(Done done) {
  if (joining_) std::exchange(joining_, nullptr)(fail(ErrorCode::aborted, "this process leaves while it joins"));
  leaving_ = std::move(done);
  leave_deadline_ = loop_.now() + kGoodbyeLimit;
  finish_leave();
}

void World::finish_leave() {
  if (!leaving_) return;
  const bool late = loop_.now() >= leave_deadline_;
  const auto waits = [&](auto&& why) { return !late && std::any_of(peers_.begin(), peers_.end(), why); };
  if (!said_goodbye_ && !waits([](const Peer& peer) { return !peer.pending.empty(); })) say_goodbye();
  if (said_goodbye_ && !alone_ && !waits([](const Peer& peer) { return !peer.session.kept().empty(); }))
    leave_alone(goodbye_);
  if (late || (alone_ && connections_.empty())) std::exchange(leaving_, nullptr)({});
}

void World::say_goodbye() {
  goodbye_ = encode_goodbye(self_);
  flood(goodbye_);
  said_goodbye_ = true;
  for (const Early& each : std::exchange(early_, {})) connections_.close(each.id);
}

double World::tick() {
  beat();
  confirm_ends();
  retry_dials();
  finish_join();
  finish_leave();
  double next = self_ >= 0 && !alone_ && peers_.size() > 1 ? next_beat_ : EventLoop::kNever;
  if (joining_) next = std::min(next, join_deadline_);
  if (leaving_) next = std::min(next, leave_deadline_);
  for (const Peer& peer : peers_) {
    if (peer.dial) next = std::min(next, peer.dial->retry_at);
    if (peer.ended_at) next = std::min(next, *peer.ended_at + kGoodbyeOnItsWay);
  }
  return next;
}

}  // namespace tutti
