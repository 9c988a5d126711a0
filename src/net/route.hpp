// How to reach a process. A plain value.
#pragma once

#include <optional>
#include <string>

#include "net/socket.hpp"

namespace tutti {

/// An address, or a LocalListener of this host.
struct Route {
  SocketAddress remote;
  std::optional<SocketAddress> source;  // to dial from; none: the kernel chooses
  std::string local;                    // path of a LocalListener; empty: `remote` counts

  static Route to(const SocketAddress& remote) { return {remote, {}, {}}; }
  static Route to_local(std::string path) { return {{}, {}, std::move(path)}; }

  bool is_local() const { return !local.empty(); }
  std::string to_string() const { return is_local() ? local : remote.to_string(); }
};

}  // namespace tutti
