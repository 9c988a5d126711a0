// The connections with one process: those that carry the session with it, and lifelines, on which nothing is ever said.
//
// What is sent goes over the connection that was opened last; when that goes, another of them takes over with all that
// may be lost. All that are open are entered in a table of the owner's, which tells whose an event is. One thread, that
// of the event loop.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "control/control_connections.hpp"
#include "control/frame.hpp"
#include "control/world/session.hpp"
#include "net/event_loop.hpp"

namespace tutti {

class SessionLinks {
 public:
  using Id = ControlConnections::Id;
  using Frame = Session::Frame;
  using ProcessTable = std::map<Id, int>;  // which process a connection is with

  /// What a frame that has come is to the session.
  enum class FrameUse {
    none,        // a heartbeat
    next,        // to be taken
    seen,        // to be dropped, since it has come before
    last_words,  // to be taken, though it stands outside of the order
    breach,      // the connection breaks the rules
  };
  struct ReceivedFrame {
    FrameUse use;
    std::span<const std::byte> content;
  };

  /// A connection is silent if nothing has come for `silence` seconds. `processes` is the table.
  SessionLinks(EventLoop& loop, ControlConnections& connections, ProcessTable& processes, int process, double silence)
      : loop_(loop), connections_(connections), processes_(processes), process_(process), silence_(silence) {}

  bool empty() const { return links_.empty(); }
  std::size_t size() const { return links_.size(); }
  bool is_detour(Id id) const;
  const Session& session() const { return session_; }

  /// Carries the session from now on. `detour`: others relay the connection.
  void add(Id id, bool detour);
  /// Takes out a connection that has ended; another one takes over.
  void remove(Id id);
  /// Ends some of them at once.
  void close(const std::vector<Id>& links);
  void send(const Frame& frame);
  /// Sends a frame that stands outside of the order.
  void send_on_all(const Frame& frame);
  /// Takes in a frame, and what it acknowledges.
  ReceivedFrame receive(ControlFrame kind, std::span<const std::byte> payload);
  /// Acknowledges what has come, whichever way.
  void acknowledge(Id id);
  /// Acknowledges on all that have nothing else to say, which is a heartbeat.
  void beat();

  void heard(Id id);
  double seconds_unheard() const { return loop_.now() - last_heard_; }
  /// Returns whether all of them are silent. While they are, each is a chance.
  bool are_silent() const { return seconds_unheard() > silence_; }
  /// Returns those that are silent while others are not.
  std::vector<Id> silent_ones() const;
  /// Returns those that are not needed: of connections without a detour all but the two newest, since one from each end
  /// is enough, and detours where one of these is not silent.
  std::vector<Id> surplus() const;
  /// Takes in what has come on them already.
  void read_now();

  void add_lifeline(Id id);
  bool is_lifeline(Id id) const;
  bool has_lifeline() const { return !lifelines_.empty(); }
  /// Returns whether the connection, which has ended, was a lifeline.
  bool remove_lifeline(Id id);

  /// Ends all, those that carry the session once what was sent has gone out. Nobody is going to ask for it again.
  void drain(double seconds);

 private:
  struct OpenLink {
    Id id;
    double last_heard;
    bool detour;
  };

  EventLoop& loop_;
  ControlConnections& connections_;
  ProcessTable& processes_;
  const int process_;
  const double silence_;
  Session session_;
  std::vector<OpenLink> links_;  // the last one carries our frames
  std::vector<Id> lifelines_;
  double last_heard_ = 0;
};

}  // namespace tutti
