// The ports and addresses that this process listens on for lanes, and a local listener for processes of its host.
// Follows ports that get another address. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "net/endpoint.hpp"
#include "net/interfaces.hpp"
#include "net/local_listener.hpp"
#include "net/sockets.hpp"

namespace tutti {

class ListeningPorts {
 public:
  ListeningPorts(const ProcessId& own, Sockets& sockets) : id_(own), sockets_(sockets) {}

  /// Opens the given addresses, or ports by TUTTI_INTERFACES, and a local listener; returns what listens.
  Result<std::vector<Fd>> open(const std::vector<SocketAddress>& addresses, bool has_secret);
  /// Opens ports that came back with another address, or are new. Returns nothing if addresses were given.
  std::vector<Fd> open_new();
  /// Returns what others need to reach this process.
  Endpoint endpoint() const;
  /// Returns how many ports the others were told of at first.
  std::size_t announced() const;
  /// Returns the addresses of this host that it listens on, to dial from.
  std::vector<OwnAddress> sources() const;

 private:
  struct Port {
    std::string interface;  // empty: the address was given
    SocketAddress address;
  };

  Result<std::vector<Port>> chosen_ports(bool has_secret) const;
  Result<Fd> listen_at(Port& port) const;

  const ProcessId id_;
  Sockets& sockets_;
  LocalListener local_;
  mutable std::mutex mutex_;
  std::vector<Port> ports_;
  mutable std::size_t announced_ = 0;
};

}  // namespace tutti
