// Ways to a process that none of its own addresses leads to: a neighbour's port may work, ours or the peer's.
//
//   dialer --door--> process of its host --TCP--> peer, or a process of its host --door--> peer
//   dialer --TCP--> process of the peer's host --door--> peer
//   dialer --TCP--> process of a third host that hears the peer --TCP--> peer
//
// What comes by a door goes on by TCP. What comes by TCP goes on by a door, or to the address over which the peer is
// connected right now. Only between hosts, so that there are no circles.
#include <algorithm>

#include "base/log.hpp"
#include "control/world.hpp"

namespace tutti {
namespace {

// Taken in turn: which end has the trouble is not known.
std::vector<ControlWay> mixed(const std::vector<ControlWay>& one, const std::vector<ControlWay>& other) {
  std::vector<ControlWay> all;
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

std::vector<ControlWay> World::detours_to(int process) const {
  if (same_host(self_, process)) return door_of(process);
  std::vector<ControlWay> doors;
  std::vector<ControlWay> addresses;
  for (const int neighbour : hosted_with(self_))
    for (const ControlWay& way : door_of(neighbour)) doors.push_back(way);
  for (const int neighbour : hosted_with(process))
    for (const SocketAddress& address : peers_[neighbour].info.addresses) addresses.push_back({address, {}});
  for (const int hearer : peers_[process].hearers)
    if (hearer != self_ && peers_[hearer].living && !same_host(hearer, self_) && !same_host(hearer, process))
      for (const SocketAddress& address : peers_[hearer].info.addresses) addresses.push_back({address, {}});
  return mixed(doors, addresses);
}

std::vector<ControlWay> World::door_of(int process) const {
  const std::string& door = peers_[process].info.door;
  return door.empty() ? std::vector<ControlWay>() : std::vector<ControlWay>{{{}, door}};
}

std::vector<ControlWay> World::onward_ways(int from, int to, bool came_by_door) const {
  if (!peers_[to].living || same_host(from, to)) return {};
  std::vector<ControlWay> ways;
  if (!came_by_door && same_host(self_, to)) return door_of(to);
  if (!came_by_door) {
    // Only where it surely is, so that a connection is passed on to no third one.
    const Peer& peer = peers_[to];
    if (hears(peer) && peer.link_address) ways.push_back({peer.info.addresses[*peer.link_address], {}});
    return ways;
  }
  if (!same_host(self_, from)) return {};
  for (const SocketAddress& address : peers_[to].info.addresses) ways.push_back({address, {}});
  for (const int neighbour : hosted_with(to))
    for (const SocketAddress& address : peers_[neighbour].info.addresses) ways.push_back({address, {}});
  return ways;
}

void World::pass_on(Id id, int from, int to) {
  std::vector<ControlWay> ways = onward_ways(from, to, switchboard_.by_door(id));
  if (!ways.empty()) return switchboard_.pass_on(id, std::move(ways));
  log::info("process {} looks for process {} here, which cannot be reached from here", from, to);
  switchboard_.close(id);
}

}  // namespace tutti
