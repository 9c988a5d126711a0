// The processes of a world as one of them sees it, on its control thread: keeps the overlay connected, floods deaths,
// goodbyes and broadcasts.
//
// Two processes that have once been connected hold a session (peer_session.hpp), which is an edge of the overlay:
// floods go over all of them, and both ends watch it. When processes die or leave, the overlay is drawn anew among the
// living, and new edges begin with what was flooded lately, so that nothing is lost to those whose neighbours all died.
// A process that learns that it was declared dead itself blames nobody for the connections that end then.
//
// Routes through other processes: net/address_book.hpp. One thread, that of the event loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/control_connections.hpp"
#include "control/control_peer.hpp"
#include "control/death.hpp"
#include "control/mailbox.hpp"
#include "control/roster.hpp"
#include "control/world/overlay.hpp"
#include "control/world/peer_session.hpp"
#include "net/event_loop.hpp"

namespace tutti {

class World final : private PeerSession::SessionOwner {
 public:
  using Done = std::function<void(Status)>;
  struct News {
    std::function<void(int process, const Death&)> died;
    std::function<void(int process)> left;
  };

  World(EventLoop& loop, ControlConnections& connections, Mailbox& mailbox, Roster& roster, News news,
        double heartbeat_timeout);

  /// Returns what the connections are to call.
  ControlConnections::Events events();

  void join(std::vector<ControlPeer> all, int self, double seconds, Done done);
  void send(int process, std::uint64_t topic, std::span<const std::byte> bytes);
  void broadcast(std::uint64_t topic, std::span<const std::byte> bytes, const std::vector<int>& to);
  /// Says goodbye once what was sent can go out, and waits until it has arrived with some who stay; done within
  /// kGoodbyeLimit.
  void leave(Done done);

  /// Does what is due, and says when to be called again at the latest. To be called after every turn.
  double tick();

  static constexpr double kGoodbyeLimit = 1.0;  // seconds

 private:
  using Id = ControlConnections::Id;
  using Frame = PeerSession::Frame;

  // Greeted before this process joined.
  struct Early {
    Id id;
    Greeting greeting;
    bool is_local;
  };

  Connector::Answer greeted(Id id, const Greeting& greeting, bool is_local);
  Connector::Answer judge(const Greeting& greeting, bool is_local) const;
  Connector::Answer relay(int from, int to, bool came_locally) const;
  void opened(Id id, const Greeting& greeting);
  void ended(Id id, const Error& error, const ControlConnections::Ending& ending);
  PeerSession* session_of(Id id);

  void session_began(PeerSession& session) override;
  void session_connected() override { finish_join(); }
  void frame_received(int process, ControlFrame kind, std::span<const std::byte> payload) override;
  void process_doubted(int process) override { flood_opinion(process, false); }
  void process_lost(int process, const std::string& why, Certainty certainty) override;
  void process_left(int process) override { learn_goodbye(process, process); }
  bool hears_others_than(int process) const override;

  void broadcast_received(int from, std::span<const std::byte> payload);
  void death_received(std::span<const std::byte> payload);
  void opinion_received(int from, std::span<const std::byte> payload);

  void learn_death(int process, Death death);
  void confirm_death(int process, Death death);
  void learn_goodbye(int process, int from);
  void part_from(int process, const Frame& last_words);
  void leave_alone(const Frame& last_words);

  void draw_overlay();
  void beat();
  void flood(const Frame& frame, int except = -1);
  void flood_opinion(int process, bool hears);
  void finish_join();
  bool is_cut_off() const;
  void finish_leave();
  void say_goodbye();
  std::string missing_neighbours() const;
  bool has(std::uint32_t process) const { return process < sessions_.size(); }
  PeerSession& session(int process) const { return *sessions_[static_cast<std::size_t>(process)]; }

  PeerSession::WorldState state_;
  Mailbox& mailbox_;
  Roster& roster_;
  const News news_;
  std::vector<std::unique_ptr<PeerSession>> sessions_;  // by process; this one's own is idle
  std::vector<Early> early_;

  Done joining_;
  double join_deadline_ = 0;
  std::optional<Error> first_death_;

  Done leaving_;
  double leave_deadline_ = 0;
  bool told_ = false;   // one who passes it on has acknowledged the goodbye
  bool alone_ = false;  // declared dead by the others, or gone: ends of connections mean nothing

  SeenBroadcasts seen_;
  FloodHistory history_;
  std::vector<Frame> absences_;  // deaths and goodbyes, for new neighbours
  std::uint64_t next_broadcast_ = 0;
  double next_beat_ = 0;
  double draw_again_at_ = EventLoop::kNever;  // because some have left
};

}  // namespace tutti
