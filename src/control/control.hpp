// The control plane of a world, which is a set of processes that joined together: who is alive, small messages between
// them, and news that reach everyone. It knows nothing of collectives.
//
// One thread per Control, asleep while nothing happens. All calls may come from any thread and none blocks, but join(),
// leave(), the removal of handlers, and destruction (which leaves). Handlers run on the control thread and must not
// block, nor call join(), leave() or the destructor.
//
// A death is *known*, to all within a second, if a process of the same host saw the end (pidfd), or if the kernel ended
// the process's streams in order and nobody listens at its address any more. A death is *presumed* if nobody has heard
// the process for `heartbeat_timeout`; a process of this host that is merely stopped is not presumed dead by those who
// watch it. One that only some cannot reach is not dead: others are asked before a death is presumed. A connection that
// fails between processes that live is replaced, over another address if there is one, and loses nothing. If no address
// of a process answers, other processes of its host or of ours, or those that hear it, pass the connection on.
// This process's own absence (stopped, suspended) is never held against others. A process that the others declared dead
// while it lives learns so: on_death is called with its own index.
//
// In a child made by fork() a Control does nothing, and may be destroyed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/process_id.hpp"
#include "control/control_connections.hpp"
#include "control/control_peer.hpp"
#include "control/mailbox.hpp"
#include "control/roster.hpp"
#include "control/subscriptions.hpp"
#include "control/world/world.hpp"
#include "net/event_loop.hpp"
#include "net/local_listener.hpp"
#include "net/sockets.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct ControlOptions {
  ProcessId id = ProcessId::random();
  std::string host;                   // processes of the same host watch each other; empty: host_identity()
  double heartbeat_timeout = 0;       // seconds; 0: TUTTI_HEARTBEAT_TIMEOUT
  double stranger_patience = 5.0;     // seconds for a connection to prove that it knows the secret
  double pulse = 10.0;                // seconds from one to the next
  std::vector<SocketAddress> listen;  // empty: the chosen interfaces; without a secret, loopback
  Sockets* sockets = &kernel_sockets();
  EventLoop::Clock clock = monotonic_seconds;
};

class Control {
 public:
  using MessageHandler = std::function<void(int from, std::span<const std::byte> bytes)>;
  using DeathHandler = Subscriptions::DeathHandler;
  using LeaveHandler = Subscriptions::LeaveHandler;
  using Subscription = Subscriptions::Key;

  /// Listens, and starts the thread.
  static Result<std::unique_ptr<Control>> start(const std::string& secret, ControlOptions options = {});
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// What the others need to know of this process, to be exchanged at bootstrap.
  const ControlPeer& self() const { return self_; }
  const std::vector<SocketAddress>& addresses() const { return self_.addresses; }

  /// All processes of the world, in the same order everywhere, and our index among them. Returns when this process is
  /// connected to its neighbours; timed_out names those that are missing. Once per Control. `interrupted` is asked now
  /// and then: an error ends the wait.
  Status join(std::vector<ControlPeer> all, int self, Deadline deadline,
              const std::function<Status()>& interrupted = nullptr);

  /// Messages that came earlier for this topic are handed over first. One handler per topic.
  void on_message(std::uint64_t topic, MessageHandler handler);
  /// Returns when no handler of the topic runs, or will. What still comes for it is forgotten.
  void remove_topic(std::uint64_t topic);

  /// To one process, connecting on first use; in order, and lost only if one of the two dies or leaves. To oneself too.
  /// invalid_argument: no such process, or more than kMessageLimit bytes.
  Status send(int process, std::uint64_t topic, std::span<const std::byte> bytes);
  /// To every other living process exactly once, even while some die; nearly always in order. A process that joins
  /// more slowly than the others gets the last FloodHistory::kFrames. `to`: only these get it; others pass it on.
  Status broadcast(std::uint64_t topic, std::span<const std::byte> bytes, std::vector<int> to = {});

  /// Deaths that happened before are told too. Each process once, and once more when a presumed death becomes known.
  Subscription on_death(DeathHandler handler);
  Subscription on_leave(LeaveHandler handler);
  /// Called every ControlOptions::pulse, for what is to be looked after now and then.
  Subscription on_pulse(std::function<void()> handler);
  /// Returns when the handler does not run, and will not.
  void unsubscribe(Subscription subscription);

  /// Neither dead nor left.
  bool alive(int process) const { return roster_.alive(process); }
  bool has_left(int process) const { return roster_.left(process); }
  std::optional<Death> death_of(int process) const { return roster_.death_of(process); }
  /// Those that have died or left. This process, too, if the others count it as dead.
  std::vector<int> absent() const { return roster_.absent(); }
  /// Neither leave() was called nor is this a child of fork.
  bool is_open();

  /// Whether the caller is a handler.
  bool on_control_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  /// Says goodbye: the others know that this process has left, and do not count it as dead. About a second at most.
  void leave();

 private:
  Control(const std::string& secret, const ControlOptions& options, double heartbeat_timeout);

  Result<std::vector<SocketAddress>> listen(const std::vector<SocketAddress>& addresses);
  void listen_locally();
  void run();
  Status check(int process, std::span<const std::byte> bytes) const;
  bool forked() const;

  const pid_t owner_;
  Sockets& sockets_;
  EventLoop loop_;
  Roster roster_;
  Mailbox mailbox_;
  Subscriptions subscriptions_;
  ControlConnections connections_;
  World world_;
  ControlPeer self_;
  LocalListener local_;
  bool joined_ = false;   // under mutex_
  bool stopped_ = false;  // under mutex_
  std::mutex mutex_;
  std::mutex leave_mutex_;
  bool running_ = true;  // control thread only
  std::thread thread_;
};

}  // namespace tutti
