// TCP between processes. One Tcp per process: it listens, dials, and moves the frames of all links to and from all
// other processes. Connections ("lanes") belong to a pair of processes, settings().tcp_lanes of them and at least one
// for each port of the peer, dialed by the one with the lower id when it opens its first link to the other; all links
// between the two share them, both ways.
//
// Who drives: a caller that waits for something calls progress() in its own loop, and wait() when there is nothing to
// do; no thread stands between it and the sockets. While no caller does, the transport's own thread drives (and always
// accepts, dials and shakes hands). Everything here may be called from any thread, except that a link is used by one
// thread at a time.
//
// Failure: a connection that is lost (an error, a port without carrier, silence) is replaced by the others, and dialed
// again for ever; while there is none, links wait. What ends that is close_peer(), or a peer at whose every address
// nobody listens. A process that leaves in order is missed only by links that still need something from it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/address_book.hpp"
#include "net/endpoint.hpp"
#include "net/event_loop.hpp"
#include "net/sockets.hpp"
#include "transport/checksums.hpp"
#include "transport/link.hpp"
#include "transport/link_state.hpp"
#include "transport/tcp/next_look.hpp"
#include "transport/tcp/poller.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct TcpOptions {
  std::string job;                     // processes of different jobs do not meet, even with the same secret
  std::vector<SocketAddress> listen;   // empty: by TUTTI_INTERFACES; without a secret, loopback
  int lanes = 0;                       // connections per peer; 0: settings().tcp_lanes
  PortRange source_ports;              // a lane from each, on every port of ours; {0, 0}: TUTTI_SOURCE_PORTS
  std::optional<Checksums> checksums;  // none: TUTTI_CHECKSUM
  LinkLimits limits;
  double greeting_timeout = 10.0;  // seconds for a connection to become a lane
  double dial_timeout = 0.0;       // seconds of trying to reach a peer; 0: settings().join_timeout
  Sockets* sockets = &kernel_sockets();
  EventLoop::Clock clock = steady_seconds;  // of lanes and their connections
};

class Tcp {
 public:
  static Result<std::shared_ptr<Tcp>> start(const std::string& secret, TcpOptions options = {});
  /// Says goodbye to all peers; links still open report an error from now on.
  ~Tcp();
  Tcp(const Tcp&) = delete;
  Tcp& operator=(const Tcp&) = delete;

  /// What others need to reach us.
  Endpoint endpoint() const;
  /// `moved` is called, on the transport's thread, when a port came back with another address or a new one came: the
  /// other processes need to know.
  void on_move(std::function<void(const Endpoint&)> moved);
  /// Sets all processes of the job, this one included. Those of a host relay lanes for one another if one has no port
  /// that works.
  void set_processes(std::vector<AddressBook::Process> all);
  /// Another process has other addresses now.
  void update(const Endpoint& peer);

  /// Return at once; the connection is made behind the scenes, and credit comes when both ends are open.
  std::unique_ptr<SendLink> open_send(const Endpoint& peer, const LinkId& id);
  std::unique_ptr<RecvLink> open_recv(const Endpoint& peer, const LinkId& id);

  /// Moves what can be moved without waiting. True if anything moved.
  bool progress();
  /// Sleeps until there is something to move, wake() was called, or the time is over. Returns at once where either
  /// happened since the calling thread last returned from here, so that nothing that came between is missed.
  void wait(std::chrono::microseconds at_most);
  void wake();

  /// The process is known to be dead: its links get this error.
  void close_peer(const ProcessId& peer, const Error& why);

  /// Whether links to the process report an error from now on.
  bool has_failed(const ProcessId& peer) const;
  /// Whether all that was sent to the process in a communicator has arrived. If not, has it say so soon.
  bool has_delivered(const ProcessId& peer, std::uint64_t communicator) const;

  /// The lanes to a peer and how they are, for messages.
  std::string describe_lanes(const ProcessId& peer) const;
  TcpCounters counters() const;

 private:
  class Impl;
  explicit Tcp(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
