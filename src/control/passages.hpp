// Connections between other processes that go through this one, because it has a network port that works where one of
// them has none. Who dialed has proven itself and greeted, but not us; a way to the one it greeted is looked for, the
// greeting is said there again, and from then on what either says is handed to the other, unread.
//
// Ways begin one shortly after the other, and the first that leads to someone who proves itself is taken. Bounded in
// number and, until the two are joined, in time; over when either side is. Where no way leads there the connection
// ends, and whoever dialed looks elsewhere. One thread, that of the loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/fd.hpp"
#include "control/connection.hpp"
#include "net/event_loop.hpp"
#include "net/handshake.hpp"
#include "net/relay.hpp"

namespace tutti {

class Passages {
 public:
  Passages(EventLoop& loop, const JobKey& key) : loop_(loop), key_(key) {}
  ~Passages();
  Passages(const Passages&) = delete;
  Passages& operator=(const Passages&) = delete;

  void open(Fd near, const Greeting& greeting, std::vector<ControlWay> ways);
  bool empty() const { return searches_.empty() && relays_.empty(); }

  /// Begins and ends what is due, and says when to be called again.
  double tick();

  static constexpr std::size_t kLimit = 256;
  static constexpr std::size_t kWays = 8;         // for one of them
  static constexpr double kSearchSeconds = 2.0;   // to be joined
  static constexpr double kAnswerSeconds = 0.05;  // for a way to lead somewhere before the next begins too

 private:
  using Number = std::uint64_t;
  struct Onward {
    ControlConnection connection;
    std::uint64_t watch = 0;
  };
  struct Search {
    Fd near;
    std::uint64_t watch = 0;
    Greeting greeting;
    std::deque<ControlWay> ways;  // that have not begun
    std::map<Number, std::unique_ptr<Onward>> onwards;
    double next_at = 0;
    double deadline = 0;
  };
  struct Joined {
    Relay relay;
    std::array<std::uint64_t, 2> watches{};
  };

  void begin_next(Number number);
  bool begin(Number number, const ControlWay& way);
  void advance_onward(Number number, Number onward);
  void drop_onward(Search& search, Number onward);
  void end_search(Number number);
  void join(Number number, Number onward);
  void advance_relay(Number number);
  void end_relay(Number number);

  EventLoop& loop_;
  JobKey key_;
  std::map<Number, Search> searches_;
  std::map<Number, Joined> relays_;
  Number next_number_ = 1;
};

}  // namespace tutti
