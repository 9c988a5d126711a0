// Makes the connections of one purpose between processes of a job: listens, dials, has both ends prove the job's
// secret, and exchanges greetings (pending_connection.hpp). Its owner decides what to do with whoever greets, and gets
// the socket of each connection that is made; a greeting that is for another process can be passed on to it
// (relays.hpp).
//
// Whoever has not proven itself is bounded in time and in number: each connector holds a share of the
// process's descriptors at most, and the oldest goes first, once it has had the time that an honest peer needs. Until
// then newcomers wait in the kernel's queue. What is dropped is logged, at most one line a second.
//
// One thread, that of the event loop. The owner's functions may call anything here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/rate_limited_log.hpp"
#include "base/wire.hpp"
#include "net/event_loop.hpp"
#include "net/handshake.hpp"
#include "net/pending_connection.hpp"
#include "net/relays.hpp"
#include "net/route.hpp"
#include "tutti/error.hpp"

namespace tutti {

class Connector {
 public:
  using Id = std::uint64_t;

  /// Somebody who knows the secret has connected and greeted.
  struct Arrival {
    Blob greeting;
    SocketAddress remote;
    bool is_local = false;  // came by a LocalListener
  };

  /// What becomes of an arrival.
  struct Answer {
    enum class Kind : std::uint8_t {
      accept,   // the reply is sent, unless it is empty, and accepted() follows
      refuse,   // the reply is sent, and the connection ends
      drop,     // the connection ends, and `why` is logged, unless it is empty
      pass_on,  // the greeting is for another process, to which `routes` lead
      later,    // answer() follows
    };
    Kind kind = Kind::drop;
    Blob reply;
    std::string why;
    std::vector<Route> routes;

    static Answer accept(Blob reply = {}) { return {Kind::accept, std::move(reply), {}, {}}; }
    static Answer refuse(Blob reply) { return {Kind::refuse, std::move(reply), {}, {}}; }
    static Answer drop(std::string why = {}) { return {Kind::drop, {}, std::move(why), {}}; }
    static Answer pass_on(std::vector<Route> routes) { return {Kind::pass_on, {}, {}, std::move(routes)}; }
    static Answer later() { return {Kind::later, {}, {}, {}}; }
  };

  class Owner {
   public:
    virtual ~Owner() = default;
    virtual Answer greeted(Id id, const Arrival& arrival) = 0;
    virtual void accepted(Id id, Fd socket, const Arrival& arrival) = 0;
    /// One that was dialed is made; `reply` is what the other end said.
    virtual void dialed(Id id, Fd socket, const Blob& reply) = 0;
    virtual void dial_failed(Id id, const Error& why, ConnectFailure kind) = 0;
    /// An arrival went away before it was accepted.
    virtual void left(Id id) = 0;
    /// A connection that came in was dropped before it was accepted.
    virtual void dropped() = 0;
  };

  struct Options {
    Purpose purpose = Purpose::control;
    JobKey key;
    double patience = 5;               // seconds for an arrival to prove itself
    std::size_t greeting_limit = 256;  // bytes
    Sockets* sockets = &kernel_sockets();
  };

  struct DialTimes {
    double answer = 2;    // seconds for the host to answer,
    double greeting = 2;  // and then for the process
  };

  /// A dialed connection that its owner takes over before the reply came.
  struct Unfinished {
    Fd socket;
    SocketAddress remote;
    Blob unsent;  // of the greeting
  };

  Connector(EventLoop& loop, const Options& options, Owner& owner);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  Status listen(Fd listener);
  /// Accepts nobody any more, and drops those who have not greeted.
  void stop_listening();

  /// The owner hears of the outcome after this returned.
  Result<Id> dial(const Route& route, const Blob& greeting, DialTimes times);
  /// For an arrival that was answered with later().
  void answer(Id id, Answer answer);
  /// Ends it, without a word to the owner.
  void close(Id id);
  /// A dialed one whose other end is proven, and may count it as made; nothing for all others.
  std::optional<Unfinished> take_over(Id id);
  /// The host at the other end has answered, whatever its process does.
  bool is_connected(Id id) const;
  /// Nothing is on its way or passed on.
  bool empty() const { return pending_.empty() && relays_.empty(); }

  /// Ends what is late, and listens again after a pause. Returns when to be called again.
  double tick();

  /// How many connections may be open that have not proven themselves: an eighth of the process's descriptors, 16 to
  /// 1,024.
  static std::size_t unproven_limit();
  static constexpr double kFairSeconds = 0.3;  // that each of them has

 private:
  struct Pending {
    explicit Pending(PendingConnection c) : connection(std::move(c)) {}
    PendingConnection connection;
    std::uint64_t watch = 0;
    double since = 0;
    double deadline = 0;
    double greeting_seconds = 0;  // dialed: the deadline once the host has answered
    bool dialed = false;
    bool proven = false;   // accepted: it knows the secret
    bool greeted = false;  // and the owner knows
    bool refused = false;
    Arrival arrival;
  };
  struct Listener {
    Fd socket;
    std::uint64_t watch = 0;
  };

  Result<Id> add(PendingConnection connection, double seconds, bool dialed);
  Pending* find(Id id) const;
  void accept_some(std::size_t listener);
  bool make_room();
  std::optional<Id> oldest_unproven() const;
  std::optional<Id> oldest_ungreeted() const;
  bool has_had_its_time(const Pending& pending) const;
  Status watch(Id id, Pending& pending);
  void on_events(Id id, std::uint32_t events);
  void pause_listening(double seconds);
  void advance(Id id);
  void note_proof(Pending& pending);
  void judge(Id id);
  void finish(Id id);
  void give_up(Id id, const Error& why, ConnectFailure kind);
  void drop(Id id, const std::string& why);
  std::unique_ptr<Pending> remove(Id id);

  EventLoop& loop_;
  Options options_;
  Owner& owner_;
  Relays relays_;
  std::vector<Listener> listeners_;
  std::map<Id, std::unique_ptr<Pending>> pending_;  // oldest first
  Id next_id_ = 1;
  std::size_t unproven_ = 0;
  const std::size_t unproven_limit_ = unproven_limit();
  double listen_again_at_ = 0;  // 0: listening
  RateLimitedLog log_;
};

}  // namespace tutti
