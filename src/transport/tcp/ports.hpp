// The network ports of this host as they come and go, told by the kernel (rtnetlink). One thread.
#pragma once

#include <vector>

#include "base/fd.hpp"
#include "net/interfaces.hpp"
#include "net/sockets.hpp"

namespace tutti {

class Ports {
 public:
  explicit Ports(Sockets& sockets);

  /// Readable when something changed; -1 where the kernel does not tell.
  int descriptor() const { return socket_.get(); }

  struct Change {
    bool usable = false;  // since now, or not any more
    std::string interface;
    std::vector<SocketAddress> addresses;  // that this is about
  };
  /// What is different since this was last asked.
  std::vector<Change> changes();

 private:
  Sockets& sockets_;
  Fd socket_;
  std::vector<Interface> known_;
};

/// What became usable, and what did not stay so, between two looks at the interfaces.
std::vector<Ports::Change> compare(const std::vector<Interface>& before, const std::vector<Interface>& after);

}  // namespace tutti
