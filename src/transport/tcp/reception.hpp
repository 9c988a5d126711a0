// The one background thread of a process's TCP transport. It accepts and dials connections and sees them through their
// handshakes, many at a time, each with a deadline; strangers are dropped and cost nobody anything: they may hold a
// small share of the process's descriptors, and the oldest makes room for the next. It hears of ports
// that lose or find their carrier, and has the host look after its lanes. While no caller drives the data connections
// (idle), it does that as well; while one does, they do not wake it.
//
// The host's functions are called on the thread. dial() and the rest may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/rate_limited_log.hpp"
#include "net/handshake.hpp"
#include "net/relay.hpp"
#include "net/socket.hpp"
#include "transport/tcp/attempt.hpp"
#include "transport/tcp/next_look.hpp"

namespace tutti {

class Reception {
 public:
  class Host {
   public:
    virtual ~Host() = default;
    /// What to do with a connection that says this.
    virtual Attempt::Verdict judge(const LaneGreeting& hello) = 0;
    /// Ways to a process for whom we pass on what another one says.
    virtual std::vector<Rail> routes_to(const ProcessId& process) = 0;
    /// A peer's lane is through.
    virtual void on_accepted(Fd socket, const LaneGreeting& greeting) = 0;
    /// Ours is.
    virtual void on_dialed(Fd socket, const Dial& dial) = 0;
    /// Ours will not be, this time.
    virtual void on_dial_failed(const Dial& dial, const Error& why, DialFailure kind) = 0;
    virtual void on_ports_changed() = 0;
    /// Someone was turned away.
    virtual void on_stranger() = 0;
    /// Whether a caller has driven the data connections since this was last asked, or sleeps on them.
    virtual bool is_driven() = 0;
    virtual void drive() = 0;
    /// Looks after all lanes. Returns when to be called again at the latest: steady_seconds.
    virtual double tick() = 0;
  };

  struct Options {
    double greeting_timeout = 10.0;  // seconds for one connection to become a lane
    double answer_timeout = 0.3;     // seconds for a host that has answered before to answer again
  };

  /// `data` is what drive() drives: readable when there is something to do; `ports` when ports have changed.
  /// Who needs the host's tick() earlier than planned tells `next_look`.
  Reception(Host& host, const JobKey& key, const ProcessId& own, std::vector<Fd> listeners, int data, int ports,
            std::shared_ptr<NextLook> next_look, Options options);
  /// Starts the thread.
  Status start();
  ~Reception() { stop(); }

  /// On the thread, from within the host's functions.
  void dial(const Dial& dial);
  void listen(Fd listener);
  /// Ends the thread; attempts under way are dropped.
  void stop();
  /// In a child of fork there is no thread to end.
  void abandon_thread();

 private:
  /// A connection that waits to be joined with one onwards.
  struct Passage {
    Fd socket;
    LaneGreeting hello;
    std::vector<Rail> routes;
    std::size_t tried = 0;
  };
  struct Pending {
    Attempt attempt;
    std::unique_ptr<Dial> dial;        // ours
    std::unique_ptr<Passage> passage;  // another process's; neither: accepted
    short watched = 0;
  };
  struct Passing {
    Relay relay;
    std::array<std::uint32_t, 2> watched{};
  };

  void run();
  int sleep_milliseconds(bool driven, double next_tick);
  void handle_control_events();
  void accept_some(std::size_t listener);
  void make_room_for_stranger();
  void add(Attempt attempt, std::unique_ptr<Dial> dial, std::unique_ptr<Passage> passage = nullptr);
  void pass_on(std::unique_ptr<Passage> passage);
  void join(Fd one, Fd other);
  void advance_relay(std::uint64_t number);
  void advance(std::uint64_t id);
  static bool is_stranger(const Pending& pending);
  void watch(std::uint64_t id, Pending& pending, int operation);
  void finish(std::uint64_t id);
  void give_up(std::uint64_t id, const Error& why);
  void turn_away(const SocketAddress& who, const Error& why);
  void warn(const std::string& line) { log_.warn(line, steady_seconds()); }
  void check_deadlines();
  void listen_again();

  Host& host_;
  JobKey key_;
  ProcessId own_;
  std::vector<Fd> listeners_;
  int data_;
  Options options_;
  Fd control_;  // epoll of listeners, attempts, ports, and next_look_
  std::shared_ptr<NextLook> next_look_;
  std::map<std::uint64_t, Pending> pending_;  // the oldest first
  std::size_t strangers_limit_;
  std::unordered_map<std::uint64_t, Passing> relays_;
  std::uint64_t next_id_ = 0;
  Deadline listen_again_at_;  // listeners are not watched until then
  RateLimitedLog log_;

  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tutti
