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
  last_heard_ = loop_.now();
  links_.push_back({id, last_heard_, detour});
  acknowledge(id);
  for (const Frame& frame : session_.kept()) connections_.queue(id, frame);
}

void SessionLinks::remove(Id id) {
  const bool carried = !links_.empty() && links_.back().id == id;
  std::erase_if(links_, [&](const OpenLink& link) { return link.id == id; });
  if (!carried || links_.empty()) return;
  for (const Frame& frame : session_.kept()) connections_.queue(links_.back().id, frame);
}

void SessionLinks::send(const Frame& frame) {
  const Frame& kept = session_.push(frame);
  if (!links_.empty()) connections_.queue(links_.back().id, kept);
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

void SessionLinks::drain(double seconds) {
  for (const OpenLink& link : std::exchange(links_, {})) {
    acknowledge(link.id);  // one that leaves waits for it
    connections_.drain(link.id, seconds);
  }
  session_.forget_kept();
}

}  // namespace tutti
