// TCP over IPv4 and IPv6, for whoever needs a socket. Every descriptor is non-blocking and close-on-exec, with
// TCP_NODELAY; every wait carries a Deadline. Nothing here is logged: the error says which address it is about.
// Who may connect is decided by net/handshake.hpp; which addresses this host has, by net/interfaces.hpp.
// Functions of an `int descriptor` borrow it. Any thread; one descriptor by one thread at a time.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// An IPv4 or IPv6 address with a port. The default is no address: family() is AF_UNSPEC.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  static SocketAddress of(const sockaddr* address, socklen_t bytes);
  static SocketAddress any(int family, std::uint16_t port = 0);
  static SocketAddress loopback(int family = AF_INET, std::uint16_t port = 0);
  /// Numeric only: "1.2.3.4:80", "[::1]:80", "[fe80::1%eth0]:80".
  static Result<SocketAddress> parse(std::string_view text);

  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  SocketAddress with_port(std::uint16_t port) const;
  bool is_loopback() const;    // 127.0.0.0/8, ::1, and the former mapped into IPv6
  bool is_link_local() const;  // 169.254.0.0/16, fe80::/10
  bool is_any() const;         // 0.0.0.0, ::

  std::string host() const;       // "1.2.3.4", "::1"
  std::string to_string() const;  // "1.2.3.4:80", "[::1]:80"; "(no address)"
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }

  /// Same family, host and port.
  bool operator==(const SocketAddress& other) const;
};

/// "host:port" or "[v6]:port" taken apart; the host may be a name.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view text);

/// The addresses of a host, numeric or by name, in the resolver's order; `family` AF_UNSPEC takes either. A resolver
/// that hangs costs no more than the deadline.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port, Deadline deadline,
                                           int family = AF_UNSPEC);

/// Ports to listen on. {0, 0}: any the kernel has free.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};
/// "first-last", "port", or "" for any.
Result<PortRange> parse_port_range(std::string_view text);
/// TUTTI_PORT_RANGE.
Result<PortRange> port_range_setting();

/// Listens on `address`. Its port, where not 0, is the one taken; otherwise the first free one of `ports`, starting
/// at a random place so that many ranks of a host seldom meet. IPv6 listeners take no IPv4.
Result<Fd> listen_on(const SocketAddress& address, PortRange ports);
/// The same within TUTTI_PORT_RANGE.
Result<Fd> listen_on(const SocketAddress& address);

/// The next connection, and who it comes from; nothing where none waits. Peers that were gone before they were
/// accepted are skipped. Running out of descriptors is an error.
struct Accepted {
  Fd connection;
  SocketAddress peer;
};
Result<std::optional<Accepted>> accept_one(int listener);
/// Waits for one.
Result<Accepted> accept_before(int listener, Deadline deadline);

/// Begins to connect, from `source` where given (its port may be 0). When the descriptor becomes writable,
/// finish_connect says how it went.
Result<Fd> start_connect(const SocketAddress& remote, const SocketAddress* source = nullptr);
Status finish_connect(int descriptor);
/// The same as an errno; 0: connected. ECONNREFUSED: the host answers, but nobody listens there.
int connect_result(int descriptor);

/// Connects; while nobody listens yet, or the way there is not up, tries again with growing pauses until the deadline.
Result<Fd> connect_to(const SocketAddress& remote, Deadline deadline, const SocketAddress* source = nullptr);
/// Connects, once.
Result<Fd> connect_once(const SocketAddress& remote, Deadline deadline, const SocketAddress* source = nullptr);

/// Waits until poll reports one of `events` (POLLIN, POLLOUT) or an error condition. timed_out at the deadline.
Status wait_for(int descriptor, short events, Deadline deadline);

/// All of the bytes or an error. timed_out at the deadline; a peer that closed or reset is ErrorCode::system.
Status send_all(int descriptor, std::span<const std::byte> bytes, Deadline deadline);
Status recv_all(int descriptor, std::span<std::byte> bytes, Deadline deadline);
/// What can be moved without waiting; 0: nothing now. A closed or reset connection is an error.
Result<std::size_t> send_some(int descriptor, std::span<const std::byte> bytes);
Result<std::size_t> recv_some(int descriptor, std::span<std::byte> bytes);

Result<SocketAddress> local_address(int descriptor);
Result<SocketAddress> peer_address(int descriptor);
/// The peer's address for a message; "an unknown peer" where it has none (any more).
std::string peer_name(int descriptor);

/// Has the kernel ask an idle connection's far end now and then whether it is there: the connection ends if nothing
/// answers within about `seconds`. What was sent and is not acknowledged is for the caller to watch.
Status watch_idle(int descriptor, double seconds);
/// Does the same, and ends a connection, too, if what was sent is not acknowledged for as long. So does the far end if
/// its process takes nothing in.
Status watch_silence(int descriptor, double seconds);

}  // namespace tutti
