// The connections that carry a session with one process. What is sent goes over the one that was opened last; when that
// goes, another of them takes over with all that may be lost. One thread, that of the event loop.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "control/control_connections.hpp"
#include "control/world/session.hpp"
#include "net/event_loop.hpp"

namespace tutti {

class SessionLinks {
 public:
  using Id = ControlConnections::Id;
  using Frame = Session::Frame;

  /// A connection is silent if nothing has come for `silence` seconds.
  SessionLinks(EventLoop& loop, ControlConnections& connections, double silence)
      : loop_(loop), connections_(connections), silence_(silence) {}

  bool empty() const { return links_.empty(); }
  std::size_t size() const { return links_.size(); }
  bool is_detour(Id id) const;
  Session& session() { return session_; }
  const Session& session() const { return session_; }

  /// Carries the session from now on. `detour`: others relay the connection.
  void add(Id id, bool detour);
  void remove(Id id);
  void send(const Frame& frame);
  /// Sends a frame that stands outside of the order.
  void send_on_all(const Frame& frame);
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
  /// Ends all, once what was sent has gone out. Nobody is going to ask for it again.
  void drain(double seconds);

 private:
  struct OpenLink {
    Id id;
    double last_heard;
    bool detour;
  };

  EventLoop& loop_;
  ControlConnections& connections_;
  const double silence_;
  Session session_;
  std::vector<OpenLink> links_;  // the last one carries our frames
  double last_heard_ = 0;
};

}  // namespace tutti
