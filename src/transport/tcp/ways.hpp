// The ways between processes: the ports this one listens on, where the others are, and by which rails to get there,
// directly or by way of a neighbour. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "net/endpoint.hpp"
#include "net/local_listener.hpp"
#include "net/rails.hpp"

namespace tutti {

/// A process of the job, and the host it is on.
struct Neighbour {
  Endpoint endpoint;
  std::uint64_t host = 0;
  int number = -1;  // in the order they were introduced
};

class Ways {
 public:
  explicit Ways(const ProcessId& own) : id_(own) {}

  /// Opens the given addresses, or ports by TUTTI_INTERFACES, and a local listener; returns what listens.
  Result<std::vector<Fd>> open(const std::vector<SocketAddress>& addresses, bool has_secret);
  /// The same for ports that came back with another address, or are new. Nothing where addresses were given.
  std::vector<Fd> open_new();
  /// What others need to reach us.
  Endpoint own() const;
  /// How many ports the others were told of at first.
  std::size_t announced() const;

  void introduce(std::vector<Neighbour> all);
  /// A process has other addresses now.
  void follow(const Endpoint& endpoint);
  bool knows(const ProcessId& process) const;
  /// Of a process in the job; -1: not known.
  int number_of(const ProcessId& process) const;

  /// One for each address of a process.
  std::vector<Route> direct(const std::vector<SocketAddress>& remote) const;
  /// By way of our neighbours, who may have a port that works, or of the process's.
  std::vector<Route> detours(const ProcessId& process) const;
  /// For another process, who asks us to pass it on: to a neighbour locally, to others by our ports.
  std::vector<Route> onwards(const ProcessId& process) const;

 private:
  struct Port {
    std::string interface;  // empty: the address was given
    SocketAddress address;
  };

  static Result<std::vector<Port>> chosen_ports(bool has_secret);
  static Result<Fd> listen_at(Port& port);
  std::vector<Neighbour> neighbours_of(const ProcessId& process) const;

  const ProcessId id_;
  LocalListener local_;
  mutable std::mutex mutex_;
  std::vector<Port> ports_;
  mutable std::size_t announced_ = 0;
  std::map<ProcessId, Neighbour> directory_;
};

}  // namespace tutti
