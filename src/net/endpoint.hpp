// What others need to reach a process: its id, and the addresses its transport listens on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/process_id.hpp"
#include "net/socket.hpp"

namespace tutti {

struct Endpoint {
  ProcessId id;
  std::vector<SocketAddress> addresses;  // the fastest first
  std::string local_path;                // of its LocalListener, for processes of its host; empty: none

  /// "0123...cdef 10.0.0.1:4711 [fe80::1%eth0]:4712 /proc/4242/fd/7"
  std::string to_string() const;
  static Result<Endpoint> parse(std::string_view text);
  bool operator==(const Endpoint&) const = default;
};

}  // namespace tutti
