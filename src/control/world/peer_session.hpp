// The session with one other process of a world, and all that keeps it up: connections that carry it, attempts to
// replace them, heartbeats, and the evidence that the process is dead.
//
// A session begins with the first connection. Connections only carry it: one that ends or falls silent is replaced,
// over the next address of the process or by way of one near it, and what may be lost is sent again.
//
// How sure it is that a process is dead: two processes of different hosts hold, beside the connections that carry their
// session, a *lifeline*: a connection on which nothing is ever said. When a process ends, its kernel closes the
// lifeline in order. (It resets the others if something lies unread in them, and anyone on the way can send a reset.)
// So the end of a stream, and then an address at which nobody listens, prove a death. A refusal alone does not: a
// firewall may reject, or another host have the address now. Without proof there is only silence, and others are asked
// before a death is presumed.
//
// A process that was out of touch before it died may have presumed this one dead, gone on without it, and ended. Its
// death counts as presumed, so that this process does not go on by itself without a majority.
//
// One thread, that of the event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>

#include "control/control_connections.hpp"
#include "control/control_peer.hpp"
#include "control/death.hpp"
#include "control/world/own_silence.hpp"
#include "control/world/peer_addresses.hpp"
#include "control/world/peer_dial.hpp"
#include "control/world/process_end.hpp"
#include "control/world/second_opinion.hpp"
#include "control/world/session_links.hpp"
#include "net/address_book.hpp"
#include "net/event_loop.hpp"

namespace tutti {

class PeerSession {
 public:
  using Id = ControlConnections::Id;
  using Frame = SessionLinks::Frame;

  /// What a session reports. Any of it may end the session: see is_living().
  class SessionOwner {
   public:
    virtual ~SessionOwner() = default;
    /// The session has begun: what is entrusted to it now goes out first.
    virtual void session_began(PeerSession& session) = 0;
    /// A connection was opened.
    virtual void session_connected() = 0;
    /// A frame has come, once and in order; or last words, which stand outside of the order.
    virtual void frame_received(int process, ControlFrame kind, std::span<const std::byte> payload) = 0;
    /// The process is silent here: the others are to be asked whether they hear it.
    virtual void process_doubted(int process) = 0;
    virtual void process_lost(int process, const std::string& why, Certainty certainty) = 0;
    /// The process had said goodbye, and its last connection has ended.
    virtual void process_left(int process) = 0;
    /// Returns whether any process but this one is heard.
    virtual bool hears_others_than(int process) const = 0;
  };
  /// What all sessions of a world share.
  struct WorldState {
    EventLoop& loop;
    ControlConnections& connections;
    SessionOwner& owner;
    const double heartbeat_timeout;
    OwnSilence own_silence{heartbeat_timeout};
    AddressBook book{};
    int self = -1;
    ProcessId id{};
    bool joined = false;
    bool leaving = false;
    std::optional<Frame> goodbye{};                        // once it was said
    SessionLinks::ProcessTable processes_by_connection{};  // open ones and lifelines
  };

  PeerSession(WorldState& world, int process, ControlPeer info);

  int process() const { return process_; }
  bool is_living() const { return living_; }
  bool has_begun() const { return begun_; }
  /// Returns whether it is a neighbour in the overlay without a connection.
  bool is_missing() const { return neighbour_ && links_.empty(); }
  /// Returns whether the process speaks to this one.
  bool hears() const { return living_ && begun_ && !links_.empty() && !links_.are_silent(); }
  /// Returns where this process is connected to it without a detour; null: nowhere.
  const SocketAddress* connected_at() const { return hears() ? addresses_.connected_at() : nullptr; }
  /// Returns whether frames wait for the session to begin; or for the peer to acknowledge them.
  bool has_pending() const { return !pending_.empty(); }
  bool has_kept() const { return !links_.session().kept().empty(); }

  /// Neighbours hold connections. Of two, the lower one dials, and one that leaves.
  void set_neighbour(bool neighbour);
  /// Sends a frame once there is a connection, which is dialed if need be.
  void post(Frame frame);
  /// Sends a frame; the session has begun.
  void entrust(const Frame& frame);

  /// A connection with the process is open, and carries the session from now on.
  void open(Id id);
  /// The same for a lifeline.
  void open_lifeline(Id id);
  void receive(Id id, ControlFrame kind, std::span<const std::byte> payload);
  void heard(Id id);
  /// An open connection or a lifeline has ended.
  void connection_ended(Id id, const Error& error, const ControlConnections::Ending& ending);
  /// Returns whether the connection was an attempt of this session, which has failed.
  bool attempt_ended(Id id, const Error& error, bool nobody_listens);

  /// Others say that the process said goodbye. Returns whether its own word follows on its connection.
  bool announce_goodbye() { return goodbye_announced_ = !links_.empty(); }
  bool is_goodbye_announced() const { return goodbye_announced_; }
  /// The process said goodbye, and so has this one, which passes nothing on any more: tells it so, before what it has
  /// said is acknowledged.
  void answer_goodbye(const Frame& goodbye) { links_.send_on_all(goodbye); }
  /// Another process says that it hears this one.
  void heard_by(int process) { opinion_.add_hearer(process, world_.loop.now()); }
  /// Returns whether to say so to one that asks.
  bool answers() { return hears() && opinion_.answer(world_.loop.now()); }

  /// Sends a heartbeat, and judges the process by its own.
  void beat();
  /// Does what is due.
  void tick();
  /// Returns when tick() is to be called again at the latest.
  double next_tick() const;

  /// Ends the session for good: the process died or left. `last_words` go to one that may not know.
  void part(const Frame& last_words);
  /// Acknowledges what has come, on a connection that carries no session any more.
  void acknowledge(Id id) { links_.acknowledge(id); }

  static constexpr double kFarewellSeconds = 2.0;  // for the other side to end a connection that is over

 private:
  PeerDial::Situation situation() const { return {begun_, end_.is_watched(), world_.joined || begun_}; }
  void link_ended(Id id, const std::string& why);
  void stream_ended();
  void keep_lifeline();
  void watch();
  void start_dial(double delay);
  void attempt();
  void attempt_failed(const PeerDial::DialStep& step, const Error& error, bool nobody_listens);
  void refused(const std::string& why);
  bool is_given_up(double unheard, double limit);
  void lose(const std::string& why, Certainty certainty);

  WorldState& world_;
  const int process_;
  const ControlPeer info_;
  bool living_ = true;
  bool neighbour_ = false;
  bool goodbye_announced_ = false;
  SessionLinks links_;
  bool begun_ = false;         // there was a connection once
  std::deque<Frame> pending_;  // until then
  PeerAddresses addresses_;
  std::optional<PeerDial> dial_;
  double redial_from_ = 0;  // not at once if connections end one after another
  SecondOpinion opinion_;
  ProcessEnd end_;
  bool stream_ended_ = false;            // its kernel ended a connection, and none was opened since
  std::optional<double> refused_since_;  // nobody listens where it did
  std::string trouble_;                  // what went wrong since a connection was last opened
};

}  // namespace tutti
