// The network interfaces of this host and which of them to use. Plain values; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/socket.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct Interface {
  std::string name;
  std::vector<SocketAddress> addresses;  // port 0
  bool up = false;
  bool running = false;  // has a carrier
  bool loopback = false;
  int speed = -1;    // Mb/s; -1: the driver does not say
  int distance = 0;  // from the memory of the core that asks, as the kernel counts it; 0: not known
};

/// In the kernel's order.
Result<std::vector<Interface>> interfaces();

/// An address of this host, and how many of its first bits all of its subnet share.
struct OwnAddress {
  SocketAddress address;
  unsigned prefix = 0;

  bool shares_subnet(const SocketAddress& other) const;
};
std::vector<OwnAddress> own_addresses();

/// True where the name fits the pattern, as NCCL_SOCKET_IFNAME has it: comma-separated prefixes; a leading '^' selects
/// what fits none of them; a leading '=' (or "^=") compares whole names.
bool fits_pattern(std::string_view name, std::string_view pattern);

/// Of `all`, those to use, the fastest first and of equals the nearest, each with the addresses to use in it, IPv4
/// first. Without a pattern: what is up and running and not loopback or a bridge of containers (docker*, virbr*, veth*,
/// br-*, ...); only where nothing is left, those; and only then loopback. Link-local addresses are taken where an
/// interface has no other. `family` AF_UNSPEC takes either. A pattern that fits nothing usable is an error that lists
/// what is there.
Result<std::vector<Interface>> choose_interfaces(std::vector<Interface> all, std::string_view pattern, int family);

/// Chooses by TUTTI_INTERFACES and TUTTI_FAMILY, of this host's if no others are given.
Result<std::vector<Interface>> chosen_interfaces(Result<std::vector<Interface>> all = interfaces());

/// AF_INET, AF_INET6, or AF_UNSPEC for "".
Result<int> parse_family(std::string_view text);

}  // namespace tutti
