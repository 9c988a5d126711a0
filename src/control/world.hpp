// The processes of a world as one of them sees it, on its control thread: keeps the overlay connected, watches its
// neighbours, floods deaths, goodbyes and broadcasts.
//
// Every open connection is an edge of the overlay: floods go over all of them, and both ends watch it. When processes
// die or leave, the overlay is drawn anew among the living, and new edges begin with what was flooded lately, so that
// nothing is lost to those whose neighbours all died. A process that learns that it was declared dead itself blames
// nobody for the connections that end then.
// One thread, that of the reactor.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "control/control_peer.hpp"
#include "control/mailbox.hpp"
#include "control/overlay.hpp"
#include "control/process_watch.hpp"
#include "control/reactor.hpp"
#include "control/roster.hpp"
#include "control/switchboard.hpp"

namespace tutti {

class World {
 public:
  using Done = std::function<void(Status)>;
  struct News {
    std::function<void(int process, const Error&)> died;
    std::function<void(int process)> left;
  };

  World(Reactor& reactor, Switchboard& switchboard, Mailbox& mailbox, Roster& roster, News news,
        double heartbeat_timeout);

  /// What the switchboard is to call.
  Switchboard::Events events();

  void join(std::vector<ControlPeer> all, int self, double seconds, Done done);
  void send(int process, std::uint64_t topic, std::span<const std::byte> bytes);
  void broadcast(std::uint64_t topic, std::span<const std::byte> bytes);
  /// Says goodbye once what was sent has gone out; done within kGoodbyeLimit.
  void leave(Done done);

  /// Does what is due, and says when to be called again at the latest. To be called after every turn.
  double tick();

  static constexpr double kGoodbyeLimit = 1.0;  // seconds
  static constexpr double kGoodbyeOnItsWay = 0.2;
  static constexpr double kFarewellSeconds = 2.0;  // for the other side to end a connection that is over

 private:
  using Id = Switchboard::Id;
  using Frame = std::vector<std::byte>;

  // An attempt to connect, over all addresses of the peer in turn, again and again.
  struct Dial {
    std::optional<Id> connection;
    std::size_t address = 0;
    double began = 0;
    double retry_at = 0;
    double pause = 0.01;
  };
  struct Peer {
    ControlPeer info;
    bool living = true;
    bool said_goodbye = false;  // others say so; its own word follows on its connection
    bool neighbour = false;
    std::vector<Id> open;       // the first one carries our messages, so that they stay in order
    std::deque<Frame> pending;  // until there is one
    std::optional<Dial> dial;
    Fd process;  // a pidfd, where it can be watched
    std::uint64_t process_key = 0;
    bool watched = false;            // its end would be seen without heartbeats
    std::optional<double> ended_at;  // the process has, but it may have said goodbye
    double last_heard = 0;
  };

  void greeted(Id id, const Greeting& greeting);
  void admit(Id id, const Greeting& greeting);
  void open_to(int process, Id id);
  void received(Id id, ControlFrame kind, std::span<const std::byte> payload);
  void received_broadcast(int from, std::span<const std::byte> payload);
  void received_death(std::span<const std::byte> payload);
  void ended(Id id, const Error& error);
  void lost(int process, const std::string& why);

  void draw_overlay();
  void expect(int process);
  void start_dial(int process, double delay);
  void attempt(int process);
  void attempt_failed(int process, const Error& error);
  void watch(int process);
  void process_ended(int process);
  void confirm_ends();

  void declare_dead(int process, std::string why);
  void learn_death(int process, Error error);
  void learn_goodbye(int process, int from);
  void part_from(int process, const Frame& last_words);
  void leave_alone(const Frame& last_words);

  void post(int process, Frame frame);
  void flood(const Frame& frame, int except = -1);
  void beat();
  void retry_dials();
  void finish_join();
  void finish_leave();
  std::string missing_neighbours() const;
  int process_of(Id id) const;

  Reactor& reactor_;
  Switchboard& switchboard_;
  Mailbox& mailbox_;
  Roster& roster_;
  News news_;
  double heartbeat_timeout_;

  std::vector<Peer> peers_;
  std::vector<bool> living_;
  int self_ = -1;
  std::vector<std::pair<Id, Greeting>> early_;  // greeted before this process joined
  std::vector<std::pair<Id, int>> processes_;   // of open connections

  Done joining_;
  bool joined_ = false;
  double join_deadline_ = 0;
  std::optional<Error> first_death_;

  Done leaving_;
  bool said_goodbye_ = false;
  double leave_deadline_ = 0;
  bool alone_ = false;  // declared dead by the others, or gone: ends of connections mean nothing

  SeenBroadcasts seen_;
  FloodHistory history_;
  std::vector<Frame> absences_;  // deaths and goodbyes, for new neighbours
  std::uint64_t next_broadcast_ = 0;
  double next_beat_ = 0;
};

}  // namespace tutti
