// The one background thread of a process's TCP transport. It accepts and dials connections and sees them through their
// handshakes, many at a time, each with a deadline; strangers are dropped and cost nobody anything. While no caller
// drives the data connections (idle), it does that as well; while one does, they do not wake it.
//
// The host's functions are called on the thread. dial() and the rest may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/handshake.hpp"
#include "base/net.hpp"
#include "transport/tcp/attempt.hpp"

namespace tutti {

class Reception {
 public:
  class Host {
   public:
    virtual ~Host() = default;
    /// A peer's lane is through.
    virtual void on_accepted(Fd socket, const LaneGreeting& greeting) = 0;
    /// Ours is.
    virtual void on_dialed(Fd socket, const Dial& dial) = 0;
    /// Ours will not be.
    virtual void on_dial_failed(const Dial& dial, const Error& why) = 0;
    /// Someone was turned away.
    virtual void on_stranger() = 0;
    /// Whether a caller has driven the data connections since this was last asked, or sleeps on them.
    virtual bool is_driven() = 0;
    virtual void drive() = 0;
  };

  struct Options {
    double greeting_timeout = 10.0;  // seconds for one connection to become a lane
    double dial_timeout = 60.0;      // seconds of trying again
  };

  /// `data` is what drive() drives: readable when there is something to do.
  Reception(Host& host, const JobKey& key, const ProcessId& own, std::vector<Fd> listeners, int data, Options options);
  ~Reception() { stop(); }

  void dial(const Dial& dial);
  /// Ends the thread; attempts under way are dropped.
  void stop();
  /// In a child of fork there is no thread to end.
  void abandon_thread();

 private:
  struct Outgoing {
    Dial dial;
    std::size_t address = 0;   // of peer.addresses, tried next
    std::size_t refusals = 0;  // in a row
    double pause = 0.005;      // seconds until the next round
    Deadline until;
    Deadline may_be_refused_until;
  };
  struct Pending {
    Attempt attempt;
    std::unique_ptr<Outgoing> outgoing;  // null: accepted
    short watched = 0;
  };
  struct Retry {
    Deadline at;
    std::unique_ptr<Outgoing> outgoing;
  };

  void run();
  int poll_timeout(bool driven) const;
  void handle_control_events();
  void take_dials();
  void accept_all(std::size_t listener);
  void start(std::unique_ptr<Outgoing> outgoing);
  void add(Attempt attempt, std::unique_ptr<Outgoing> outgoing);
  void advance(std::uint64_t id);
  void watch(std::uint64_t id, Pending& pending, int operation);
  void finish(std::uint64_t id);
  void give_up(std::uint64_t id, const Error& why);
  void dial_again(std::unique_ptr<Outgoing> outgoing, const Error& why, bool refused, bool final);
  void turn_away(const SocketAddress& who, const Error& why);
  void check_deadlines();
  void listen_again();

  Host& host_;
  JobKey key_;
  ProcessId own_;
  std::vector<Fd> listeners_;
  int data_;
  Options options_;
  Fd control_;  // epoll of listeners, attempts, and doorbell_
  Fd doorbell_;
  std::unordered_map<std::uint64_t, Pending> pending_;
  std::uint64_t next_id_;
  std::vector<Retry> retries_;
  Deadline listen_again_at_;  // listeners are not watched until then
  Deadline log_again_at_ = Deadline::in(0);
  std::uint64_t unlogged_ = 0;

  std::mutex dials_mutex_;
  std::deque<Dial> dials_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tutti
