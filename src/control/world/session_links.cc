#include "control/world/session_links.hpp"

#include <algorithm>
#include <utility>

#include "base/wire.hpp"
#include "control/frame.hpp"

namespace tutti {

bool SessionLinks::is_detour(Id id) const {
  return std::any_of(links_.begin(), links_.end(), [&](const OpenLink& link) { return link.id == id && link.detour; });
}

void SessionLinks::add(Id id, bool detour) {
  processes_[id] = process_;
  last_heard_ = loop_.now();
  links_.push_back({id, last_heard_, detour});
  acknowledge(id);
  for (const Frame& frame : session_.kept()) connections_.queue(id, frame);
}

void SessionLinks::remove(Id id) {
  processes_.erase(id);
  const bool carried = !links_.empty() && links_.back().id == id;
  std::erase_if(links_, [&](const OpenLink& link) { return link.id == id; });
  if (!carried || links_.empty()) return;
  for (const Frame& frame : session_.kept()) connections_.queue(links_.back().id, frame);
}

void SessionLinks::close(const std::vector<Id>& links) {
  for (const Id id : links) {
    connections_.close(id);
    remove(id);
  }
}

void SessionLinks::send(const Frame& frame) {
  const Frame& kept = session_.push(frame);
  if (!links_.empty()) connections_.queue(links_.back().id, kept);
}

SessionLinks::ReceivedFrame SessionLinks::receive(ControlFrame kind, std::span<const std::byte> payload) {
  WireReader in(payload);
  const auto number = in.get<std::uint64_t>();
  if (kind == ControlFrame::heartbeat)
    return {in.complete() && session_.acknowledged(number) ? FrameUse::none : FrameUse::breach, {}};
  if (!is_numbered(kind)) return {FrameUse::none, {}};
  if (!in.ok()) return {FrameUse::breach, {}};
  if (number == 0) {
    const bool last_words = kind == ControlFrame::death || kind == ControlFrame::left;
    return {last_words ? FrameUse::last_words : FrameUse::breach, in.rest()};
  }
  switch (session_.arrived(number, payload.size())) {
    case Session::Arrival::next:
      return {FrameUse::next, in.rest()};
    case Session::Arrival::seen:
      return {FrameUse::seen, {}};
    case Session::Arrival::gap:
      break;
  }
  return {FrameUse::breach, {}};
}

void SessionLinks::acknowledge(Id id) {
  WireWriter out;
  out.put(session_.acknowledge());
  connections_.queue(id, encode_frame(ControlFrame::heartbeat, out.take()));
}

void SessionLinks::beat() {
  for (const OpenLink& link : links_)
    if (connections_.idle(link.id)) acknowledge(link.id);
}

void SessionLinks::heard(Id id) {
  last_heard_ = loop_.now();
  for (OpenLink& link : links_)
    if (link.id == id) link.last_heard = last_heard_;
}

std::vector<SessionLinks::Id> SessionLinks::silent_ones() const {
  std::vector<Id> silent;
  if (are_silent()) return silent;
  for (const OpenLink& link : links_)
    if (loop_.now() - link.last_heard > silence_) silent.push_back(link.id);
  return silent;
}

std::vector<SessionLinks::Id> SessionLinks::surplus() const {
  constexpr std::size_t kEnough = 2;
  std::vector<Id> direct, detours;
  bool hears_directly = false;
  for (const OpenLink& link : links_) {
    (link.detour ? detours : direct).push_back(link.id);
    hears_directly |= !link.detour && loop_.now() - link.last_heard <= silence_;
  }
  direct.resize(direct.size() - std::min(direct.size(), kEnough));
  if (hears_directly) direct.insert(direct.end(), detours.begin(), detours.end());
  return direct;
}

void SessionLinks::read_now() {
  for (const OpenLink& link : std::vector(links_)) connections_.read_now(link.id);
}

void SessionLinks::send_on_all(const Frame& frame) {
  for (const OpenLink& link : links_) connections_.queue(link.id, frame);
}

void SessionLinks::add_lifeline(Id id) {
  if (is_lifeline(id)) return;
  lifelines_.push_back(id);
  processes_[id] = process_;
}

bool SessionLinks::is_lifeline(Id id) const {
  return std::find(lifelines_.begin(), lifelines_.end(), id) != lifelines_.end();
}

bool SessionLinks::remove_lifeline(Id id) {
  if (std::erase(lifelines_, id) == 0) return false;
  processes_.erase(id);
  return true;
}

void SessionLinks::drain(double seconds) {
  std::erase_if(processes_, [&](const auto& entry) { return entry.second == process_; });
  for (const OpenLink& link : std::exchange(links_, {})) {
    acknowledge(link.id);  // one that leaves waits for it
    connections_.drain(link.id, seconds);
  }
  for (const Id id : std::exchange(lifelines_, {})) connections_.close(id);
  session_.forget_kept();
}

}  // namespace tutti
