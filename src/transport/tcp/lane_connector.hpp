// The one background thread of a process's TCP transport. It makes the connections of all lanes (net/connector.hpp),
// hears of ports that lose or find their carrier, and has the delegate look after its lanes. While no caller drives the
// data connections (idle), it does that as well; while one does, they do not wake it.
//
// The delegate's functions are called on the thread; they may call dial() and listen(). The rest is for any thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.hpp"
#include "net/connector.hpp"
#include "net/event_loop.hpp"
#include "net/route.hpp"
#include "transport/frame.hpp"
#include "transport/peer.hpp"
#include "transport/tcp/next_look.hpp"

namespace tutti {

/// A lane this process wants to have.
struct Dial {
  ProcessId peer;
  WantedLane lane;
  Route route;
};

class LaneConnector final : private Connector::Owner {
 public:
  /// What becomes of someone who connected, once it has said who it is and whom it looks for.
  enum class Reception : std::uint8_t {
    accept,
    peer_dead,  // it counts as gone here, and is told so
    pass_on,    // to the process it looks for
    refuse,     // nobody here knows that one
  };

  class Delegate {
   public:
    virtual ~Delegate() = default;
    virtual Reception judge(const LaneGreeting& hello) = 0;
    /// Returns routes to the process that the greeting is for. `came_locally`: by the local listener.
    virtual std::vector<Route> forward_routes(const LaneGreeting& hello, bool came_locally) = 0;
    /// A lane that a peer dialed is up.
    virtual void on_accepted(Fd socket, const LaneGreeting& greeting) = 0;
    /// A lane that we dialed is up.
    virtual void on_dialed(Fd socket, const Dial& dial) = 0;
    virtual void on_dial_failed(const Dial& dial, const Error& why, DialFailure kind) = 0;
    /// A connection that came in was dropped.
    virtual void on_dropped() = 0;
    virtual void on_ports_changed() = 0;
    /// Whether a caller has driven the data connections since this was last asked, or sleeps on them.
    virtual bool is_driven() = 0;
    virtual void drive() = 0;
    /// Looks after all lanes. Returns when to be called again at the latest, on the clock of the options.
    virtual double tick() = 0;
  };

  struct Options {
    double greeting_timeout = 10.0;  // seconds for one connection to become a lane
    double answer_timeout = 0.3;     // seconds for a host that has answered before to answer again
    Sockets* sockets = &kernel_sockets();
    EventLoop::Clock clock = steady_seconds;
  };

  /// `data` is what drive() drives: readable when there is something to do; `ports` when ports have changed.
  /// Who needs the delegate's tick() earlier than planned tells `next_look`.
  LaneConnector(Delegate& delegate, const JobKey& key, const ProcessId& own, int data, int ports,
                std::shared_ptr<NextLook> next_look, Options options);
  ~LaneConnector() override { stop(); }

  /// Starts the thread.
  Status start(std::vector<Fd> listeners);
  void dial(const Dial& dial);
  void listen(Fd listener);
  /// Ends the thread; connections on their way are dropped.
  void stop();
  /// In a child of fork there is no thread to end.
  void abandon_thread();

 private:
  Connector::Answer greeted(Connector::Id id, const Connector::Arrival& arrival) override;
  void accepted(Connector::Id id, Fd socket, const Connector::Arrival& arrival) override;
  void dialed(Connector::Id id, Fd socket, const Blob& reply) override;
  void dial_failed(Connector::Id id, const Error& why, ConnectFailure kind) override;
  void left(Connector::Id) override {}
  void dropped() override { delegate_.on_dropped(); }

  void run();
  void watch_data(bool wanted);
  Status check_reply(const Dial& dial, const Blob& reply, DialFailure& failure) const;

  Delegate& delegate_;
  ProcessId own_;
  int data_;
  int ports_;
  Options options_;
  std::shared_ptr<NextLook> next_look_;
  EventLoop loop_;
  Connector connector_;
  std::map<Connector::Id, Dial> dials_;  // under way
  std::uint64_t data_watch_ = 0;         // 0: not watched

  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tutti
