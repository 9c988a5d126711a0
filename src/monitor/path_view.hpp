// How far a lane's bytes have come, as this end can see without asking the process at the other one: what tells a slow
// path from a receiver that is late. By the lane (transport/lane.hpp), for its LaneMonitor.
#pragma once

#include <cstdint>

namespace tutti::monitor {

struct PathView {
  std::uint64_t delivered = 0;  // bytes of frames that the kernel (the port) over there has, since the lane is up
  std::uint64_t in_path = 0;    // bytes on their way there
  std::uint64_t lost = 0;       // packets so far that had to be sent once more
  bool is_held = false;         // there is more to send, and room for it, but this process did not
  double receiver_full = 0;     // seconds so far in which the kernel over there had no room for more
  double unread = 0;            // seconds since the last byte came here, read or not
};

}  // namespace tutti::monitor
