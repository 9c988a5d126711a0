// The peers of a process's TCP transport, each with the addresses that the process at the other end listens on. Any
// thread. Peers are never removed, so that whoever failed stays known as such.
//
// The mutex is a leaf: it guards the table only, and no other mutex is taken while it is held. What is done with a peer
// is done later, under the peer's own mutex.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/process_id.hpp"
#include "net/socket.hpp"
#include "transport/peer.hpp"

namespace tutti {

/// Names a peer by its process. A process with links to itself is its own peer twice, once for each end.
struct PeerKey {
  ProcessId process;
  bool dialing_end = false;  // of connections of this process to itself

  auto operator<=>(const PeerKey&) const = default;
};

class PeerTable {
 public:
  explicit PeerTable(const ProcessId& own) : own_(own) {}

  /// Returns whether lanes to the peer are dialed from this end. The process with the lower id dials.
  bool dials(const PeerKey& key) const { return own_ < key.process || key.dialing_end; }

  /// Returns null if there is none.
  std::shared_ptr<Peer> find(const PeerKey& key) const;
  /// Does the same; of the ends of this process itself, it finds the one that dials.
  std::shared_ptr<Peer> find(const ProcessId& process) const { return find(PeerKey{process, process == own_}); }
  /// Adds a peer. Returns it, or the one that was there before.
  std::shared_ptr<Peer> add(const PeerKey& key, std::shared_ptr<Peer> peer);
  std::vector<std::pair<PeerKey, std::shared_ptr<Peer>>> all() const;
  /// Returns the peers from which a chunk's acknowledgement is awaited, if lanes are monitored.
  std::vector<std::shared_ptr<Peer>> busy() const;

  /// Sets the addresses of a peer in the table, or keeps those that are known.
  void learn(const PeerKey& key, const std::vector<SocketAddress>& addresses);
  /// Replaces the addresses of a peer, if it is in the table.
  void update(const PeerKey& key, const std::vector<SocketAddress>& addresses);
  /// Returns none if they are not known.
  std::vector<SocketAddress> addresses(const PeerKey& key) const;

 private:
  struct KnownPeer {
    std::shared_ptr<Peer> peer;
    std::vector<SocketAddress> addresses;
  };

  const ProcessId own_;
  mutable std::mutex mutex_;
  std::map<PeerKey, KnownPeer> peers_;
};

}  // namespace tutti
