// What the process of a communicator has moved through sockets, for tests and tools.
#pragma once

#include "transport/tcp/poller.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// Of all its communicators together; all zero where it has no peers on other hosts.
TcpCounters network_traffic(const Communicator& communicator);

}  // namespace tutti
