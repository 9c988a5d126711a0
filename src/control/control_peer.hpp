// What a process tells the others about itself at bootstrap, so that they can reach it and watch it. A value.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/process_id.hpp"
#include "net/socket.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct ControlPeer {
  ProcessId id;
  std::vector<SocketAddress> addresses;  // tried in this order
  pid_t pid = 0;                         // means something to processes with the same `host` only
  std::uint64_t start_time = 0;          // with the pid names the process; see process_watch.hpp
  std::string host;
  std::string local_path;  // of its LocalListener, for those of the same host; empty: none

  std::vector<std::byte> encode() const;
  static Result<ControlPeer> decode(std::span<const std::byte> bytes);

  static constexpr std::size_t kPathLimit = 107;  // characters that fit into the address of a socket
};

}  // namespace tutti
