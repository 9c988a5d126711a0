// All connections of a control plane: made by a Connector, then open for frames. Tells its owner what happened on each,
// by number. One thread, that of the event loop. The owner's callbacks may call anything here.
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
#include "control/greeting.hpp"
#include "net/connector.hpp"
#include "net/event_loop.hpp"

namespace tutti {

class ControlConnections final : private Connector::Owner {
 public:
  using Id = Connector::Id;

  /// How a connection ended, as far as the kernel tells.
  struct Ending {
    bool nobody_listens = false;  // it was refused
    bool in_order = false;        // the peer's kernel ended the stream
  };

  struct Events {
    /// Somebody connected and greeted. The answer may follow later, by answer().
    std::function<Connector::Answer(Id, const Greeting&, bool is_local)> greeted;
    /// A connection that was accepted or dialed is open. `greeting` is what the peer said.
    std::function<void(Id, const Greeting& greeting)> opened;
    std::function<void(Id, ControlFrame, std::span<const std::byte>)> frame;
    /// Bytes came, of whole frames or not.
    std::function<void(Id)> heard;
    /// One that had greeted or was dialed is gone; not told after close() or drain().
    std::function<void(Id, const Error&, Ending)> ended;
  };

  /// `patience`: seconds for whoever connects to prove itself.
  ControlConnections(EventLoop& loop, const JobKey& key, double patience, Sockets& sockets = kernel_sockets())
      : loop_(loop), connector_(loop, {Purpose::control, key, patience, Greeting::kBytes, &sockets}, *this) {}
  ~ControlConnections() override;
  ControlConnections(const ControlConnections&) = delete;
  ControlConnections& operator=(const ControlConnections&) = delete;

  /// Before anything else.
  void set_events(Events events) { events_ = std::move(events); }
  Status listen(Fd listener) { return connector_.listen(std::move(listener)); }
  /// Accepts nobody any more, and drops those who have not proven themselves.
  void stop_listening() { connector_.stop_listening(); }

  Result<Id> dial(const Route& route, const Greeting& greeting, Connector::DialTimes times);
  void answer(Id id, Connector::Answer answer) { connector_.answer(id, std::move(answer)); }
  void queue(Id id, std::span<const std::byte> frame);
  /// Of an open connection: where it leads to or comes from.
  const SocketAddress& remote(Id id) const { return open_.at(id)->remote; }
  bool is_local(Id id) const { return open_.at(id)->is_local; }
  /// The host at the other end has answered, whatever its process does.
  bool is_connected(Id id) const { return open_.contains(id) || connector_.is_connected(id); }
  /// Nothing waits to be sent.
  bool idle(Id id) const;
  /// Takes in what has come on it already.
  void read_now(Id id) { advance(id); }
  /// Sends what is queued, ends, and waits for the peer to end, for `seconds` at most.
  void drain(Id id, double seconds);
  /// The same with a last frame, if the peer may count this connection as open; else closes it.
  void hang_up(Id id, std::span<const std::byte> last, double seconds);
  void close(Id id);
  /// No connection is left, nor one of others that goes through here.
  bool empty() const { return open_.empty() && connector_.empty(); }

  /// Ends those whose time is over. Returns when to be called again.
  double tick();

 private:
  struct PendingDial {
    Greeting greeting;
    Route route;
  };
  struct Open {
    ControlConnection connection;
    SocketAddress remote;
    bool is_local = false;
    std::uint64_t watch = 0;
    double deadline;
    bool busy = false;    // in advance(): must not be destroyed
    bool doomed = false;  // to be destroyed after it
  };

  Connector::Answer greeted(Id id, const Connector::Arrival& arrival) override;
  void accepted(Id id, Fd socket, const Connector::Arrival& arrival) override;
  void dialed(Id id, Fd socket, const Blob& reply) override;
  void dial_failed(Id id, const Error& why, ConnectFailure kind) override;
  void left(Id id) override;
  void dropped() override {}

  Open* find(Id id) const;
  Open* add(Id id, Fd socket, const SocketAddress& remote, bool is_local);
  void advance(Id id);
  void end(Id id, const Error& error);

  EventLoop& loop_;
  Events events_;
  std::map<Id, PendingDial> dials_;  // under way
  std::map<Id, std::unique_ptr<Open>> open_;
  Connector connector_;
  RateLimitedLog log_;
};

}  // namespace tutti
