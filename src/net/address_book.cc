#include "net/address_book.hpp"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

std::vector<Route> take_turns(const std::vector<Route>& one, const std::vector<Route>& other) {
  std::vector<Route> all;
  for (std::size_t at = 0; at < std::max(one.size(), other.size()); ++at) {
    if (at < one.size()) all.push_back(one[at]);
    if (at < other.size()) all.push_back(other[at]);
  }
  return all;
}

}  // namespace

std::vector<Route> match_rails(const std::vector<OwnAddress>& own, const std::vector<SocketAddress>& remote) {
  std::vector<Route> rails;
  for (std::size_t number = 0; number < remote.size(); ++number) {
    std::vector<const OwnAddress*> near;
    std::vector<const OwnAddress*> same_family;
    for (const OwnAddress& each : own) {
      if (each.shares_subnet(remote[number])) near.push_back(&each);
      if (each.address.family() == remote[number].family()) same_family.push_back(&each);
    }
    const auto& choice = near.empty() ? same_family : near;
    Route rail = Route::to(remote[number]);
    if (own.size() > 1 && !choice.empty()) rail.source = choice[number % choice.size()]->address.with_port(0);
    rails.push_back(std::move(rail));
  }
  return rails;
}

void AddressBook::set_processes(std::vector<Process> all, const ProcessId& self) {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  numbers_.clear();
  for (Process& each : all) {
    numbers_[each.endpoint.id] = static_cast<int>(entries_.size());
    entries_.push_back({std::move(each)});
  }
  const auto found = numbers_.find(self);
  self_ = found == numbers_.end() ? -1 : found->second;
}

void AddressBook::update(const Endpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  if (const auto found = numbers_.find(endpoint.id); found != numbers_.end())
    entries_[static_cast<std::size_t>(found->second)].process.endpoint = endpoint;
}

void AddressBook::remove(int process) {
  const std::lock_guard lock(mutex_);
  if (has(process)) entries_[static_cast<std::size_t>(process)].is_removed = true;
}

int AddressBook::number_of(const ProcessId& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? -1 : found->second;
}

bool AddressBook::share_host(int one, int other) const {
  const std::lock_guard lock(mutex_);
  return are_together(one, other);
}

bool AddressBook::are_together(int one, int other) const {
  return has(one) && has(other) && !at(one).process.host.empty() && at(one).process.host == at(other).process.host;
}

std::vector<int> AddressBook::neighbours_of(int process) const {
  std::vector<int> neighbours;
  for (int other = 0; other < static_cast<int>(entries_.size()); ++other)
    if (other != process && !at(other).is_removed && are_together(other, process)) neighbours.push_back(other);
  return neighbours;
}

void AddressBook::add_local(std::vector<Route>& routes, int process) const {
  const std::string& path = at(process).process.endpoint.local_path;
  if (!path.empty()) routes.push_back(Route::to_local(path));
}

void AddressBook::add_direct(std::vector<Route>& routes, int process, const std::vector<OwnAddress>& sources) const {
  for (Route& route : match_rails(sources, at(process).process.endpoint.addresses)) routes.push_back(std::move(route));
}

std::vector<Route> AddressBook::direct_routes(const std::vector<SocketAddress>& remote) const {
  return match_rails(sources(), remote);
}

std::vector<Route> AddressBook::relay_routes(int peer, const std::vector<int>& connected) const {
  const std::vector<OwnAddress> from = sources();
  const std::lock_guard lock(mutex_);
  std::vector<Route> local;
  std::vector<Route> remote;
  if (!has(peer)) return remote;
  if (are_together(self_, peer)) {
    add_local(local, peer);
    return local;
  }
  for (const int neighbour : neighbours_of(self_)) add_local(local, neighbour);
  for (const int neighbour : neighbours_of(peer)) add_direct(remote, neighbour, from);
  for (const int third : connected)
    if (has(third) && third != self_ && !at(third).is_removed && !are_together(third, self_) &&
        !are_together(third, peer))
      add_direct(remote, third, from);
  return take_turns(local, remote);
}

std::vector<Route> AddressBook::forward_routes(int from, int to, bool came_locally,
                                               const SocketAddress* connected_at) const {
  const std::vector<OwnAddress> own = sources();
  const std::lock_guard lock(mutex_);
  std::vector<Route> routes;
  if (!has(from) || !has(to) || at(to).is_removed || are_together(from, to)) return routes;
  if (!came_locally) {
    if (are_together(self_, to))
      add_local(routes, to);
    else if (connected_at != nullptr)
      routes.push_back(Route::to(*connected_at));
    return routes;
  }
  if (!are_together(self_, from)) return routes;
  add_direct(routes, to, own);
  for (const int neighbour : neighbours_of(to)) add_direct(routes, neighbour, own);
  return routes;
}

}  // namespace tutti
