// Ways to a process that none of its own addresses leads to: a neighbour's port may work, ours or the peer's.
//
//   dialer --local--> process of its host --TCP--> peer, or a process of its host --local--> peer
//   dialer --TCP--> process of the peer's host --local--> peer
//   dialer --TCP--> process of a third host that hears the peer --TCP--> peer
//
// What comes by a local listener goes on by TCP. What comes by TCP goes on by a local listener, or to the address over
// which the peer is connected right now. Only between hosts, so that there are no circles.
#include <algorithm>

#include "base/log.hpp"
#include "control/world.hpp"

namespace tutti {
namespace {

// Taken in turn: which end has the trouble is not known.
std::vector<Route> mixed(const std::vector<Route>& one, const std::vector<Route>& other) {
  std::vector<Route> all;
  for (std::size_t at = 0; at < std::max(one.size(), other.size()); ++at) {
    if (at < one.size()) all.push_back(one[at]);
    if (at < other.size()) all.push_back(other[at]);
  }
  return all;
}

}  // namespace

bool World::same_host(int one, int other) const {
  const std::string& host = peers_[one].info.host;
  return !host.empty() && host == peers_[other].info.host;
}

// Other processes that live on the host of this one, as far as is known.
std::vector<int> World::hosted_with(int process) const {
  std::vector<int> others;
  for (int other = 0; other < static_cast<int>(peers_.size()); ++other)
    if (other != process && peers_[other].living && same_host(other, process)) others.push_back(other);
  return others;
}

std::vector<Route> World::detours_to(int process) const {
  if (same_host(self_, process)) return local_routes_to(process);
  std::vector<Route> local;
  std::vector<Route> remote;
  for (const int neighbour : hosted_with(self_))
    for (const Route& route : local_routes_to(neighbour)) local.push_back(route);
  for (const int neighbour : hosted_with(process))
    for (const SocketAddress& address : peers_[neighbour].info.addresses) remote.push_back(Route::to(address));
  for (const int hearer : peers_[process].hearers)
    if (hearer != self_ && peers_[hearer].living && !same_host(hearer, self_) && !same_host(hearer, process))
      for (const SocketAddress& address : peers_[hearer].info.addresses) remote.push_back(Route::to(address));
  return mixed(local, remote);
}

std::vector<Route> World::local_routes_to(int process) const {
  const std::string& path = peers_[process].info.local_path;
  return path.empty() ? std::vector<Route>() : std::vector<Route>{Route::to_local(path)};
}

std::vector<Route> World::onward_routes(int from, int to, bool came_locally) const {
  if (!peers_[to].living || same_host(from, to)) return {};
  if (!came_locally && same_host(self_, to)) return local_routes_to(to);
  if (!came_locally) {
    // Only where it surely is, so that a connection is passed on to no third one.
    const Peer& peer = peers_[to];
    if (!hears(peer) || !peer.link_address) return {};
    return {Route::to(peer.info.addresses[*peer.link_address])};
  }
  if (!same_host(self_, from)) return {};
  std::vector<Route> routes;
  for (const SocketAddress& address : peers_[to].info.addresses) routes.push_back(Route::to(address));
  for (const int neighbour : hosted_with(to))
    for (const SocketAddress& address : peers_[neighbour].info.addresses) routes.push_back(Route::to(address));
  return routes;
}

Connector::Answer World::pass_on(int from, int to, bool came_locally) const {
  std::vector<Route> routes = onward_routes(from, to, came_locally);
  if (!routes.empty()) return Connector::Answer::pass_on(std::move(routes));
  log::info("process {} looks for process {} here, which cannot be reached from here", from, to);
  return Connector::Answer::drop();
}

}  // namespace tutti
