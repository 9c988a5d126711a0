// Forwards events to whoever collects logs, as lines over TCP. If the receiver cannot be reached, does not read, or
// goes away, lines are kept up to a bound, the connection is tried again with growing pauses, and nothing waits. What
// the kernel had taken when a connection broke is lost. One thread; times are monotonic seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/outbox.hpp"
#include "agent/pacing.hpp"
#include "base/backoff.hpp"
#include "base/fd.hpp"
#include "net/socket.hpp"

namespace tutti::agent {

class EventForwarder {
 public:
  using Resolver = std::function<Result<std::vector<SocketAddress>>(const HostPort&)>;

  /// All addresses of its name are tried, one after another.
  explicit EventForwarder(HostPort where, Resolver resolver = &resolve_soon)
      : where_(std::move(where)), resolver_(std::move(resolver)) {}

  void push(std::string line) { outbox_.push(std::move(line)); }
  void work(double now);

  /// When work() has something to do, besides what the descriptor tells; never: infinity.
  double due() const;
  /// To poll for events(); -1: none.
  int descriptor() const { return connection_.get(); }
  short events() const;
  bool is_connected() const { return state_ == State::connected; }
  std::uint64_t dropped() const { return outbox_.dropped(); }

 private:
  enum class State { apart, connecting, connected };

  static Result<std::vector<SocketAddress>> resolve_soon(const HostPort& where);
  Status connect(double now);
  Status finish();
  Status exchange(double now);
  void fail_at(double now, const std::string& why);

  HostPort where_;
  Resolver resolver_;
  std::vector<SocketAddress> untried_;  // addresses of the name, in this round
  Outbox outbox_;
  State state_ = State::apart;
  Fd connection_;
  double retry_ = 0;      // while apart
  double give_up_ = 0;    // while connecting
  double connected_ = 0;  // since when
  Backoff backoff_ = Backoff::with_jitter(0.5, 30);
  RateLimitedLog log_{kLogInterval};
};

}  // namespace tutti::agent
