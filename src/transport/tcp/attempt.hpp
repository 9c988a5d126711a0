// A connection on its way to becoming a lane: connect, prove knowledge of the secret, greet. A small machine that moves
// as far as its non-blocking socket allows; the Reception's thread drives many of them. One thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "net/handshake.hpp"
#include "net/socket.hpp"
#include "transport/frame.hpp"
#include "transport/peer.hpp"
#include "transport/tcp/rails.hpp"

namespace tutti {

/// A lane this process wants to have.
struct Dial {
  ProcessId peer;
  WantedLane lane;
  Rail rail;
};

class Attempt {
 public:
  /// What becomes of someone who connected, once it has said who it is and whom it looks for.
  enum class Verdict { welcome, gone, pass_on, refuse };
  using Judge = std::function<Verdict(const LaneGreeting&)>;
  static Attempt accepted(Fd socket, const SocketAddress& from, const JobKey& key, const ProcessId& own,
                          Deadline deadline, Judge judge);
  /// We connect. The peer's host is to answer within `answer` seconds, the peer itself within `greeting`.
  static Result<Attempt> dialing(const Dial& dial, const JobKey& key, const ProcessId& own, double answer,
                                 double greeting);
  /// We connect on behalf of another process, say what it said, and leave the rest to it.
  static Result<Attempt> forwarding(const Rail& rail, const LaneGreeting& hello, const JobKey& key,
                                    const ProcessId& own, double answer, double greeting);

  /// True: the socket is a lane now, take() it. An error is final.
  Result<bool> advance();
  /// POLLIN, POLLOUT: what to wait for before the next advance().
  short events() const;

  int descriptor() const { return socket_.get(); }
  Fd take() { return std::move(socket_); }
  /// Accepted connections that are done: what the peer said.
  const LaneGreeting& greeting() const { return greeting_; }
  const SocketAddress& address() const { return address_; }
  Deadline deadline() const { return deadline_; }
  Error late() const;
  /// Accepted connections that are done.
  Verdict verdict() const { return verdict_; }
  /// What an error of advance() means for the next attempt.
  DialFailure failure() const { return failure_; }
  /// The other end knows the secret.
  bool is_proven() const { return stage_ == Stage::speaking || stage_ == Stage::listening || stage_ == Stage::done; }
  /// It ended before the other end said anything: somebody only looked whether there is a way.
  bool said_nothing() const { return stage_ == Stage::proving && !handshake_.heard(); }

 private:
  enum class Stage { connecting, proving, speaking, listening, done };

  Attempt(Fd socket, const SocketAddress& address, Side side, const JobKey& key, const ProcessId& own,
          Deadline deadline);

  static Result<Attempt> connecting(const Rail& rail, const JobKey& key, const ProcessId& own, double answer,
                                    double greeting);
  Result<bool> step();
  Result<bool> connect();
  Result<bool> prove();
  Result<bool> speak();
  Result<bool> listen();
  Status check_greeting();

  Fd socket_;
  SocketAddress address_;
  Side side_;
  Handshake handshake_;
  ProcessId own_;
  Deadline deadline_;
  double greeting_seconds_ = 0;  // dialing: the deadline, once connected
  Stage stage_;
  std::optional<Dial> dial_;
  FrameBytes bytes_{};  // of the greeting being sent or received
  std::size_t moved_ = 0;
  LaneGreeting greeting_;
  Judge judge_;
  Verdict verdict_ = Verdict::welcome;
  bool forwards_ = false;
  DialFailure failure_ = DialFailure::passing;
};

}  // namespace tutti
