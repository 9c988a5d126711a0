// The processes of a world as one of them sees it, on its control thread: keeps the overlay connected, watches its
// neighbours, floods deaths, goodbyes and broadcasts.
//
// Two processes that have once been connected hold a session, which is an edge of the overlay: floods go over all of
// them, and both ends watch it. Connections only carry it: one that ends or falls silent is replaced, over the next
// address of the peer or by way of a process near it, and what may be lost is sent again. When processes die or leave,
// the overlay is drawn anew among the living, and new edges begin with what was flooded lately, so that nothing is lost
// to those whose neighbours all died. A process that learns that it was declared dead itself blames nobody for the
// connections that end then.
//
// world.cc: who belongs, and whose process has ended. world_links.cc: connections. world_flood.cc: what travels.
// world_opinions.cc: how sure it is that a process is dead. Routes through other processes: net/address_book.hpp.
// One thread, that of the event loop.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "control/control_connections.hpp"
#include "control/control_peer.hpp"
#include "control/death.hpp"
#include "control/mailbox.hpp"
#include "control/overlay.hpp"
#include "control/process_watch.hpp"
#include "control/roster.hpp"
#include "control/session.hpp"
#include "net/address_book.hpp"
#include "net/backoff.hpp"
#include "net/event_loop.hpp"

namespace tutti {

class World {
 public:
  using Done = std::function<void(Status)>;
  struct News {
    std::function<void(int process, const Death&)> died;
    std::function<void(int process)> left;
  };

  World(EventLoop& loop, ControlConnections& connections, Mailbox& mailbox, Roster& roster, News news,
        double heartbeat_timeout);

  /// What the connections is to call.
  ControlConnections::Events events();

  void join(std::vector<ControlPeer> all, int self, double seconds, Done done);
  void send(int process, std::uint64_t topic, std::span<const std::byte> bytes);
  void broadcast(std::uint64_t topic, std::span<const std::byte> bytes, const std::vector<int>& to);
  /// Says goodbye once what was sent can go out, and waits until it has arrived; done within kGoodbyeLimit.
  void leave(Done done);

  /// Does what is due, and says when to be called again at the latest. To be called after every turn.
  double tick();

  static constexpr double kGoodbyeLimit = 1.0;  // seconds
  static constexpr double kGoodbyeOnItsWay = 0.2;
  static constexpr double kFarewellSeconds = 2.0;  // for the other side to end a connection that is over

 private:
  using Id = ControlConnections::Id;
  using Frame = std::vector<std::byte>;

  // Greeted before this process joined.
  struct Early {
    Id id;
    Greeting greeting;
    bool is_local;
  };
  struct Step {
    Route route;
    std::optional<std::size_t> address;  // of the peer; none: a detour, of which only success tells anything
  };
  struct Attempt {
    Id id;
    Step step;
  };
  // Attempts to connect, round after round: over all addresses of the peer in turn, then by detours. One begins shortly
  // after the other, whether that is over or not: a network that heals lets a new one through at once, while the kernel
  // sends what it lost again after pauses that double.
  struct Dial {
    std::vector<Attempt> attempts;  // under way, oldest first
    std::vector<Step> round;
    std::size_t step = 0;       // of the round, that is next
    std::vector<bool> refused;  // addresses at which nobody listens
    int rounds = 0;             // that are over
    std::size_t detours = 0;    // that they tried
    double began = 0;
    double retry_at = 0;    // when the next attempt begins
    double not_before = 0;  // the same if all that are under way fail
    Backoff pause{0, 0};    // after a round

    const Attempt* find(Id id) const {
      for (const Attempt& attempt : attempts)
        if (attempt.id == id) return &attempt;
      return nullptr;
    }
  };
  // An open connection.
  struct Link {
    Id id;
    double last_heard;
    bool detour;  // others pass it on
  };
  struct Peer {
    ControlPeer info;
    bool living = true;
    bool said_goodbye = false;  // others say so; its own word follows on its connection
    bool neighbour = false;
    Session session;
    bool begun = false;          // the session has: there was a connection once
    std::vector<Link> links;     // the last one carries our frames
    std::optional<Id> lifeline;  // see keep_lifeline()
    bool stream_ended = false;   // its kernel ended a connection, and none was opened since
    std::deque<Frame> pending;   // until the session begins
    std::optional<Dial> dial;
    std::vector<bool> proven;                 // addresses that are surely its own
    std::size_t next_address = 0;             // where to dial first
    std::optional<std::size_t> link_address;  // over which it was connected last without a detour
    std::optional<double> refused_since;      // at all its addresses nobody listens
    std::string trouble;                      // what went wrong since a connection was last opened
    double redial_from = 0;                   // not at once where connections end one after another
    Fd process;                               // a pidfd, where it can be watched
    std::uint64_t process_key = 0;
    bool watched = false;            // its end would be seen without heartbeats
    std::optional<double> ended_at;  // the process has, but it may have said goodbye
    double last_heard = 0;
    // A second opinion: others are asked before this process alone presumes it dead.
    std::optional<double> asked_at;  // first, since it was last heard
    double ask_again_at = 0;
    double heard_elsewhere_until = 0;  // as far as others have told
    double vouched_at = 0;             // by this process
    std::vector<int> hearers;          // who told so, the latest first
  };

  Connector::Answer greeted(Id id, const Greeting& greeting, bool is_local);
  Connector::Answer judge(const Greeting& greeting, bool is_local) const;
  void opened(Id id, const Greeting& greeting);
  void open_to(int process, Id id);
  void begin_session(int process);
  void note_address(Peer& peer, const SocketAddress& remote);
  void heard(Id id);
  void received(Id id, ControlFrame kind, std::span<const std::byte> payload);
  void received_numbered(Id id, int from, ControlFrame kind, std::span<const std::byte> payload);
  void take(int from, ControlFrame kind, std::span<const std::byte> payload);
  void received_broadcast(int from, std::span<const std::byte> payload);
  void received_death(std::span<const std::byte> payload);
  void received_opinion(int from, std::span<const std::byte> payload);
  void ended(Id id, const Error& error, ControlConnections::Ending ending);
  void stream_ended(int process);
  void link_ended(int process, Id id, const std::string& why);
  void misbehaved(Id id, int process);
  void remove_link(int process, Id id);
  void lost(int process, const std::string& why, Certainty certainty);

  void draw_overlay();
  void expect(int process);
  void start_dial(int process, double delay);
  void attempt(int process);
  void attempt_failed(int process, const Step& step, const Error& error, bool nobody_listens);
  void refused(int process, const Error& error);
  void plan_next_attempt(int process, const Step& last);
  void begin_round(int process);
  void end_dial(Peer& peer);
  double patience_of(const Peer& peer) const;
  double stagger_of(const Peer& peer, const Step& step) const;
  bool host_answers(const Peer& peer) const;
  bool silent(double last_heard) const;
  bool hears(const Peer& peer) const;
  bool given_up(int process, double unheard, double limit);
  void ask_about(int process);
  void say_opinion(int process, bool hears);
  void keep_lifeline(int process);
  void drop_lifeline(Peer& peer);
  Connector::Answer relay(int from, int to, bool came_locally) const;
  void watch(int process);
  void process_ended(int process);
  void confirm_ends();

  void declare_dead(int process, const std::string& why, Certainty certainty);
  void learn_death(int process, Death death);
  void confirm_death(int process, Death death);
  void learn_goodbye(int process, int from);
  void part_from(int process, const Frame& last_words);
  void leave_alone(const Frame& last_words);

  void post(int process, Frame frame);
  void entrust(int process, const Frame& frame);
  void send_kept(int process, Id id);
  void acknowledge(int process, Id id);
  void flood(const Frame& frame, int except = -1);
  void beat();
  void beat_to(int process);
  void drop_silent_links(int process);
  void retry_dials();
  void finish_join();
  void finish_leave();
  void say_goodbye();
  std::string missing_neighbours() const;
  int process_of(Id id) const;

  EventLoop& loop_;
  ControlConnections& connections_;
  Mailbox& mailbox_;
  Roster& roster_;
  News news_;
  double heartbeat_timeout_;

  AddressBook book_;
  std::vector<Peer> peers_;
  std::vector<bool> living_;
  int self_ = -1;
  std::vector<Early> early_;
  std::vector<std::pair<Id, int>> processes_;  // of open connections
  std::vector<std::pair<Id, int>> lifelines_;  // of those on which nothing is said

  Done joining_;
  bool joined_ = false;
  double join_deadline_ = 0;
  std::optional<Error> first_death_;

  Done leaving_;
  bool said_goodbye_ = false;
  Frame goodbye_;
  double leave_deadline_ = 0;
  bool alone_ = false;  // declared dead by the others, or gone: ends of connections mean nothing

  SeenBroadcasts seen_;
  FloodHistory history_;
  std::vector<Frame> absences_;  // deaths and goodbyes, for new neighbours
  std::uint64_t next_broadcast_ = 0;
  double next_beat_ = 0;
};

}  // namespace tutti
