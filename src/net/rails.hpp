// Which pairs of ports connect two hosts: from which address of ours to dial each address of a peer. Pure.
#pragma once

#include <vector>

#include "net/interfaces.hpp"
#include "net/route.hpp"

namespace tutti {

/// One route for each address of the peer, in its order. An address is dialed from ours in the same subnet; where
/// several of ours are, they take turns; where none is, the first goes with the first and so on, as networks with a
/// subnet per host number their ports.
std::vector<Route> match_rails(const std::vector<OwnAddress>& own, const std::vector<SocketAddress>& remote);

}  // namespace tutti
