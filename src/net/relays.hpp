// Connections between other processes that go through this one, because it has a network port that works and one of
// them has none. Whoever dialed has proven itself and greeted, but not us. Routes to the process it greeted are tried,
// the greeting is repeated there, and from then on what either says is handed to the other, unread.
//
// Routes begin one shortly after the other; the first that leads to someone who proves itself is taken. Bounded in
// number and, until the two are joined, in time. Over when either side is. If no route leads there, the connection
// ends, and whoever dialed looks elsewhere. One thread, that of the event loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/fd.hpp"
#include "base/wire.hpp"
#include "net/event_loop.hpp"
#include "net/pending_connection.hpp"
#include "net/relay.hpp"
#include "net/route.hpp"

namespace tutti {

class Relays {
 public:
  Relays(EventLoop& loop, Sockets& sockets, Purpose purpose, const JobKey& key)
      : loop_(loop), sockets_(sockets), purpose_(purpose), key_(key) {}
  ~Relays();
  Relays(const Relays&) = delete;
  Relays& operator=(const Relays&) = delete;

  /// Joins `near` to a process that one of `routes` leads to, which hears `greeting` first.
  void open(Fd near, Blob greeting, std::vector<Route> routes);
  bool empty() const { return searches_.empty() && joined_.empty(); }

  /// Begins and ends what is due. Returns when to be called again.
  double tick();

  static constexpr std::size_t kLimit = 256;
  static constexpr std::size_t kRoutes = 32;      // for one of them
  static constexpr double kSearchSeconds = 2.0;   // to be joined
  static constexpr double kAnswerSeconds = 0.05;  // for a route to lead somewhere before the next begins too

 private:
  using Id = std::uint64_t;
  struct Attempt {
    PendingConnection connection;
    std::uint64_t watch = 0;
  };
  struct Search {
    Fd near;
    std::uint64_t watch = 0;
    Blob greeting;
    std::deque<Route> routes;  // that have not begun
    std::map<Id, std::unique_ptr<Attempt>> attempts;
    double next_at = 0;
    double deadline = 0;
  };
  struct Joined {
    Relay relay;
    std::array<std::uint64_t, 2> watches{};
  };

  void begin_next(Id id);
  bool begin(Id id, const Route& route);
  void advance_attempt(Id id, Id attempt);
  void drop_attempt(Search& search, Id attempt);
  void end_search(Id id);
  void join(Id id, Id attempt);
  void advance_relay(Id id);
  void end_relay(Id id);

  EventLoop& loop_;
  Sockets& sockets_;
  Purpose purpose_;
  JobKey key_;
  std::map<Id, Search> searches_;
  std::map<Id, Joined> joined_;
  Id next_id_ = 1;
};

}  // namespace tutti
