// All connections of a control plane, and where they come in: accepts, dials, proves, times out, and tells its owner
// what happened on each, by number. Some are passed on: see passages.hpp. Strangers are held apart, bounded in number
// and time, so that they cost nobody else anything; they are logged, at most one line a second. One thread, that of the
// loop. The owner's callbacks may call anything here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rate_limited_log.hpp"
#include "control/connection.hpp"
#include "control/passages.hpp"
#include "net/event_loop.hpp"

namespace tutti {

class Switchboard {
 public:
  using Id = std::uint64_t;

  /// How a connection ended, as far as the kernel tells.
  struct Ending {
    bool nobody_listens = false;  // it was refused
    bool in_order = false;        // the peer's kernel ended the stream
  };

  struct Events {
    /// The peer is proven and has greeted. Accepted ones wait for welcome(), dialed ones are open.
    std::function<void(Id, const Greeting&)> greeted;
    std::function<void(Id, ControlFrame, std::span<const std::byte>)> frame;
    /// Bytes came, of whole frames or not.
    std::function<void(Id)> heard;
    /// A connection that had greeted, or was dialed, is gone; not told after close() or drain().
    std::function<void(Id, const Error&, Ending)> ended;
  };

  /// `patience`: seconds that a stranger may take to prove itself.
  Switchboard(EventLoop& loop, JobKey key, double patience)
      : loop_(loop), key_(key), patience_(patience), passages_(loop, key) {}
  ~Switchboard();
  Switchboard(const Switchboard&) = delete;
  Switchboard& operator=(const Switchboard&) = delete;

  /// Listens on each address. Returns where, with ports. start() lets connections in.
  Result<std::vector<SocketAddress>> listen(const std::vector<SocketAddress>& addresses);
  /// Listens at a door of this process too.
  void listen(Fd door) { listeners_.push_back({std::move(door), 0}); }
  Status start(Events events);
  /// Lets nobody in any more, and turns away those who have not proven themselves.
  void stop_listening();

  Result<Id> dial(const ControlWay& way, const Greeting& greeting, double seconds);
  void welcome(Id id, const Greeting& own);
  void queue(Id id, std::span<const std::byte> frame);
  /// For accepted connections that have greeted: the rest is between whoever dialed and the one that was greeted, who
  /// is found by one of `ways`. The connection is none of the owner's any more.
  void pass_on(Id id, std::vector<ControlWay> ways);
  const SocketAddress& remote(Id id) const { return connections_.at(id)->connection.remote(); }
  /// The host at the other end has answered, whatever its process does.
  bool answered(Id id) const;
  bool by_door(Id id) const { return connections_.at(id)->connection.by_door(); }
  /// Nothing waits to be sent.
  bool idle(Id id) const;
  /// Takes in what has come on it already.
  void read_now(Id id);
  /// Sends what is queued, ends, and waits for the peer to end, for `seconds` at most.
  void drain(Id id, double seconds);
  /// The same with a last frame, where the peer may count this connection as open; else closes it.
  void hang_up(Id id, std::span<const std::byte> last, double seconds);
  void close(Id id);
  /// No connection is left, nor one of others that goes through here.
  bool empty() const { return connections_.empty() && passages_.empty(); }

  /// Ends those whose time is over, and says when to be called again.
  double expire();

  static constexpr std::size_t kStrangers = 256;

 private:
  struct Entry {
    explicit Entry(ControlConnection c) : connection(std::move(c)) {}
    ControlConnection connection;
    std::uint64_t watch = 0;
    double patience = 0;  // dialed: seconds for the host to answer, and then for the process
    bool dialed = false;
    bool greeted = false;
    bool busy = false;    // in advance(): must not be destroyed
    bool doomed = false;  // to be destroyed after it
  };
  struct Listener {
    Fd socket;
    std::uint64_t watch = 0;
  };

  Entry* find(Id id) const;
  Result<Id> add(ControlConnection connection, bool dialed, double seconds);
  void accept_from(Listener& listener);
  void make_room_for_stranger();
  void advance(Id id);
  void announce(Id id, Entry& entry);
  void end(Id id, const Error& error);
  void refresh(Entry& entry);
  void warn(const std::string& line) { log_.warn(line, loop_.now()); }

  EventLoop& loop_;
  JobKey key_;
  double patience_;
  Events events_;
  std::vector<Listener> listeners_;
  std::map<Id, std::unique_ptr<Entry>> connections_;  // oldest first
  Passages passages_;
  Id next_id_ = 1;
  std::size_t strangers_ = 0;
  double listen_again_at_ = 0;  // out of descriptors until then; 0: listening
  RateLimitedLog log_;
};

}  // namespace tutti
