// The life of a process of this host. A pid alone is not enough, since pids are reused: with its start time it is.
// Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.hpp"

namespace tutti {

/// When the process started, in the kernel's clock ticks since boot; nothing where there is none, or it is hidden.
std::optional<std::uint64_t> start_time_of(pid_t pid);

/// Names this boot of this host and the namespace of its pids: processes with the same name can watch each other.
/// TUTTI_HOST_ID, where set, is a part of it: it can tell processes of one host apart, not join those of two.
std::string host_identity();

struct ProcessWatch {
  Fd descriptor;      // readable once the process has ended; empty where it cannot be watched
  bool gone = false;  // it had ended already
};
ProcessWatch watch_process(pid_t pid, std::uint64_t start_time);

}  // namespace tutti
