// A port for a store that a test starts later.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "base/fd.hpp"

namespace tutti {

/// A port nobody listens on. Below the range from which the kernel takes ports for connections, so that no other test
/// has it before the store does. Processes begin at different places.
inline std::uint16_t free_port() {
  constexpr int kFirst = 20000, kCount = 12000, kApart = 37;
  static std::atomic<int> turn{::getpid() % kCount * kApart};
  for (int tries = 0; tries < kCount; ++tries) {
    const auto port = static_cast<std::uint16_t>(kFirst + turn++ % kCount);
    const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return port;
  }
  std::abort();
}

}  // namespace tutti
