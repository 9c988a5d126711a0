// The processes of a job and the routes to them: direct ones to their addresses, and routes through another process
// that relays the connection, for when a network port of either end does not work.
//
//   dialer --local--> process of its host --TCP--> peer, or a process of the peer's host --local--> peer
//   dialer --TCP--> process of the peer's host --local--> peer
//   dialer --TCP--> process of a third host that is connected to the peer --TCP--> peer
//
// A relay forwards by TCP what came by its local listener, and by a local listener what came by TCP (or to the address
// at which it is connected to the peer right now), and only between hosts. So there are no circles.
// Processes are numbered in the order they were set. Any thread.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "net/endpoint.hpp"
#include "net/interfaces.hpp"
#include "net/route.hpp"

namespace tutti {

/// Returns one route for each address in `remote`, in its order. An address is dialed from ours in the same subnet; if
/// several of ours are, they take turns; if none is, the first goes with the first and so on, as networks with a subnet
/// per host number their ports. With fewer than two addresses of ours the kernel chooses.
std::vector<Route> match_rails(const std::vector<OwnAddress>& own, const std::vector<SocketAddress>& remote);

class AddressBook {
 public:
  struct Process {
    Endpoint endpoint;
    std::string host;  // processes with the same one reach each other's local listeners; empty: not known
  };
  /// Returns the addresses of this host to dial from.
  using Sources = std::function<std::vector<OwnAddress>()>;

  /// Without `sources` the kernel chooses which address to dial from.
  explicit AddressBook(Sources sources = nullptr) : sources_(std::move(sources)) {}

  /// Sets all processes of the job; `self` is this one's id.
  void set_processes(std::vector<Process> all, const ProcessId& self);
  /// Replaces the addresses of a process. Ignores processes that are not in the book.
  void update(const Endpoint& endpoint);
  /// Has no route lead to or through a process any more, because it died or left.
  void remove(int process);

  /// Returns the number of a process, or -1 if it is not in the book.
  int number_of(const ProcessId& id) const;
  bool share_host(int one, int other) const;

  std::vector<Route> direct_routes(const std::vector<SocketAddress>& remote) const;
  /// Returns routes through processes of this host and of the peer's, in turn, since nobody knows which end has the
  /// trouble; then through `connected`, processes that are connected to the peer. A peer on this host has one route,
  /// its local listener.
  std::vector<Route> relay_routes(int peer, const std::vector<int>& connected = {}) const;
  /// Returns routes for a connection from `from` to `to` that this process is asked to relay. `connected_at`: where
  /// this process is connected to `to`, if it is.
  std::vector<Route> forward_routes(int from, int to, bool came_locally,
                                    const SocketAddress* connected_at = nullptr) const;

 private:
  struct Entry {
    Process process;
    bool is_removed = false;
  };

  std::vector<OwnAddress> sources() const { return sources_ ? sources_() : std::vector<OwnAddress>(); }
  bool has(int process) const { return process >= 0 && static_cast<std::size_t>(process) < entries_.size(); }
  const Entry& at(int process) const { return entries_[static_cast<std::size_t>(process)]; }
  // The rest is called with the mutex held.
  bool are_together(int one, int other) const;
  std::vector<int> neighbours_of(int process) const;
  void add_local(std::vector<Route>& routes, int process) const;
  void add_direct(std::vector<Route>& routes, int process, const std::vector<OwnAddress>& sources) const;

  Sources sources_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::map<ProcessId, int> numbers_;
  int self_ = -1;
};

}  // namespace tutti
