// Makes connections: connects, listens, accepts, and knows what the host offers for that (names, interfaces). The
// connector, the store, the control plane and the lanes get theirs from their owner; the default is the kernel's.
//
// A simulation implements this with socket pairs: it hands out one end and keeps, or hands to somebody else, the other.
// What is returned must be a descriptor that epoll can watch and that bytes can be read from and written to without
// waiting; a listener is readable while a connection waits. Together with EventLoop::Clock that leaves nothing in net/
// that depends on a network or on the time. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/process_id.hpp"
#include "net/interfaces.hpp"
#include "net/local_listener.hpp"
#include "net/socket.hpp"
#include "tutti/error.hpp"

namespace tutti {

class Sockets {
 public:
  struct Listening {
    Fd socket;
    SocketAddress address;  // with the port that it got
  };

  virtual ~Sockets() = default;

  /// Begins to connect, from `source` if it is not null. Once the descriptor is writable, connect_result() says how it
  /// went.
  virtual Result<Fd> connect(const SocketAddress& remote, const SocketAddress* source) = 0;
  /// Returns 0 if the descriptor is connected, else an errno. ECONNREFUSED: the host answers, but nobody listens there.
  virtual int connect_result(int descriptor) = 0;
  /// Connects to the local listener of another process; that succeeds at once or not at all.
  virtual Result<Fd> connect_local(const std::string& path) = 0;

  /// Listens on `address`. Port 0: on any port of TUTTI_PORT_RANGE that is free.
  virtual Result<Listening> listen(const SocketAddress& address) = 0;
  virtual Result<LocalListener> listen_locally(const ProcessId& owner) = 0;
  /// Returns the next connection of a listener; nothing if none waits. Running out of descriptors is an error.
  virtual Result<std::optional<Accepted>> accept(int listener) = 0;

  /// Returns the addresses of a host, numeric or by name.
  virtual Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port,
                                                     Deadline deadline) = 0;
  virtual Result<std::vector<Interface>> interfaces() = 0;
  virtual std::vector<OwnAddress> own_addresses() = 0;
};

/// The sockets of this host's kernel.
Sockets& kernel_sockets();

}  // namespace tutti
