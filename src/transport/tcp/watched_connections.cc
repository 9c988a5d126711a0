#include "transport/tcp/watched_connections.hpp"

#include <sys/epoll.h>

namespace tutti {

void WatchedConnections::add(const std::shared_ptr<Connection>& connection, std::shared_ptr<Peer> peer) {
  const std::lock_guard lock(mutex_);
  connections_[connection->id()] = {connection, std::move(peer)};
}

std::vector<WatchedConnection> WatchedConnections::all() const {
  std::vector<WatchedConnection> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, each] : connections_) all.push_back(each);
  return all;
}

bool WatchedConnections::drive(std::uint64_t id, std::uint32_t events) {
  WatchedConnection watched;
  {
    const std::lock_guard lock(mutex_);
    const auto found = connections_.find(id);
    if (found == connections_.end()) return false;
    watched = found->second;
  }
  const std::unique_lock lock(watched.peer->mutex(), std::try_to_lock);
  if (!lock) return false;
  Connection& connection = *watched.connection;
  bool moved = false;
  if ((events & EPOLLOUT) != 0) moved = connection.flush();
  const bool reads = (events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 || connection.cannot_send();
  if (reads && connection.receive()) {
    moved = true;
    if (latest_.load(std::memory_order_relaxed) != id) latest_.store(id, std::memory_order_relaxed);
  }
  if (connection.failure()) watched.peer->lane_down(connection, *connection.failure(), connection.peer_said_bye());
  return moved || !connection.is_open();
}

bool WatchedConnections::drive_ready() {
  constexpr int kEvents = 32;
  epoll_event events[kEvents];
  const int ready = ::epoll_wait(poller_->descriptor(), events, kEvents, 0);
  bool moved = false;
  for (int i = 0; i < ready; ++i) moved = drive(events[i].data.u64, events[i].events) || moved;
  return moved;
}

void WatchedConnections::drop_closed() {
  std::vector<WatchedConnection> dropped;  // destroyed after the mutex is free
  for (const std::uint64_t id : poller_->take_removed()) {
    const std::lock_guard lock(mutex_);
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    if (latest_.load(std::memory_order_relaxed) == id) latest_.store(0, std::memory_order_relaxed);
    dropped.push_back(std::move(found->second));
    connections_.erase(found);
  }
}

}  // namespace tutti
