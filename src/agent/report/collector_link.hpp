// A connection to the collector, for agents and for those who ask it. It connects, proves the token, greets, and
// exchanges frames; where that fails it tries again with growing pauses, and nothing waits. Whoever uses it learns from
// connections() that it is a new connection, on which nothing has been said. One thread; times are monotonic seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/report/frame_stream.hpp"
#include "base/backoff.hpp"
#include "net/pending_connection.hpp"
#include "net/socket.hpp"

namespace tutti::agent {

/// Both ends make the key of a token the same way. An empty token: the user's own secret, which serves on loopback
/// only, or, if `insecure`, none.
JobKey key_of_token(const std::string& token, bool insecure);

class CollectorLink {
 public:
  using Take = std::function<Status(Frame)>;

  /// `take`: what the collector says. An error from it ends the connection. Frames of more than `most_bytes` do, too.
  CollectorLink(HostPort where, JobKey key, const Hello& hello, std::size_t most_bytes, Take take)
      : where_(std::move(where)),
        key_(std::move(key)),
        hello_(encode(hello)),
        most_bytes_(most_bytes),
        take_(std::move(take)) {}

  void work(double now);
  /// Where there is a connection; else it is lost.
  void push(FrameKind kind, std::string_view payload);

  bool is_connected() const { return stream_.has_value(); }
  /// How many have been made so far.
  std::uint64_t connections() const { return connections_; }
  /// Bytes that the collector has not taken yet.
  std::size_t backlog() const { return stream_ ? stream_->backlog() : 0; }
  /// Why the last attempt failed; timed_out: whoever is there was too slow.
  const Error& failure() const { return failure_; }
  /// How many attempts and connections have failed so far. Nothing is logged here.
  std::uint64_t failures() const { return failures_; }

  /// When work() has something to do, besides what the descriptor tells; never: infinity.
  double due() const;
  /// To poll for events(); -1: none.
  int descriptor() const;
  short events() const;

 private:
  Status dial(double now);
  Status advance(double now);
  void fail_at(double now, const Error& why);

  HostPort where_;
  JobKey key_;
  Blob hello_;
  std::size_t most_bytes_;
  Take take_;
  std::vector<SocketAddress> untried_;  // addresses of the name, in this round
  std::optional<PendingConnection> pending_;
  std::optional<FrameStream> stream_;
  std::uint64_t connections_ = 0, failures_ = 0;
  Error failure_;
  double retry_ = 0;    // while there is no connection
  double give_up_ = 0;  // while one is on its way
  double connected_ = 0;
  // The longest pause is short: verdicts are to resume within seconds of the collector's return.
  Backoff backoff_ = Backoff::with_jitter(0.25, 2);
};

}  // namespace tutti::agent
