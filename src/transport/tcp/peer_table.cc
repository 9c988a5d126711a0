#include "transport/tcp/peer_table.hpp"

namespace tutti {

std::shared_ptr<Peer> PeerTable::find(const PeerKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(key);
  return found == peers_.end() ? nullptr : found->second.peer;
}

std::shared_ptr<Peer> PeerTable::add(const PeerKey& key, std::shared_ptr<Peer> peer) {
  const std::lock_guard lock(mutex_);
  KnownPeer& known = peers_[key];
  if (!known.peer) known.peer = std::move(peer);
  return known.peer;
}

std::vector<std::pair<PeerKey, std::shared_ptr<Peer>>> PeerTable::all() const {
  std::vector<std::pair<PeerKey, std::shared_ptr<Peer>>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, known] : peers_) all.emplace_back(key, known.peer);
  return all;
}

std::vector<std::shared_ptr<Peer>> PeerTable::busy() const {
  std::vector<std::shared_ptr<Peer>> busy;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, known] : peers_)
    if (known.peer->watch() != nullptr && known.peer->watch()->is_busy()) busy.push_back(known.peer);
  return busy;
}

void PeerTable::learn(const PeerKey& key, const std::vector<SocketAddress>& addresses) {
  const std::lock_guard lock(mutex_);
  KnownPeer& known = peers_.at(key);
  if (known.addresses.empty()) known.addresses = addresses;
}

void PeerTable::update(const PeerKey& key, const std::vector<SocketAddress>& addresses) {
  const std::lock_guard lock(mutex_);
  if (const auto found = peers_.find(key); found != peers_.end()) found->second.addresses = addresses;
}

std::vector<SocketAddress> PeerTable::addresses(const PeerKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(key);
  return found == peers_.end() ? std::vector<SocketAddress>() : found->second.addresses;
}

}  // namespace tutti
