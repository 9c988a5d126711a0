// The data connections of a process, by their ids in the Poller. Any thread may drive them. Each is driven under the
// mutex of its peer; if another thread holds that, the connection is left to it.
//
// The mutex is a leaf: it guards the table only, and nothing is called and no other mutex taken while it is held.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/peer.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/poller.hpp"

namespace tutti {

struct WatchedConnection {
  std::shared_ptr<Connection> connection;
  std::shared_ptr<Peer> peer;
};

class WatchedConnections {
 public:
  explicit WatchedConnections(std::shared_ptr<Poller> poller) : poller_(std::move(poller)) {}

  void add(const std::shared_ptr<Connection>& connection, std::shared_ptr<Peer> peer);
  std::vector<WatchedConnection> all() const;

  /// Returns a connection to drive without asking the kernel: it brought something last, and more is likely to come.
  /// 0: drive_ready() is due, as it is now and then for the sake of the others.
  std::uint64_t likely() {
    const std::uint64_t turn = turns_.fetch_add(1, std::memory_order_relaxed);
    return turn % kAskEvery == 0 ? 0 : latest_.load(std::memory_order_relaxed);
  }
  /// Moves what can be moved on one connection without waiting, and gives it up if it failed. Returns whether anything
  /// moved, or it is closed.
  bool drive(std::uint64_t id, std::uint32_t events);
  /// Drives all that the kernel says are ready. Returns whether anything moved.
  bool drive_ready();
  /// Forgets connections that were closed.
  void drop_closed();

 private:
  static constexpr std::uint64_t kAskEvery = 16;

  std::shared_ptr<Poller> poller_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, WatchedConnection> connections_;
  std::atomic<std::uint64_t> turns_{0};   // of likely(), every kAskEvery-th of which is for the others
  std::atomic<std::uint64_t> latest_{0};  // the connection that last brought something
};

}  // namespace tutti
