#include "communicator/operation/stall_watch.hpp"

#include <fmt/core.h>

#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"

namespace tutti {
namespace {

constexpr double kCheckMicroseconds = 50e3;   // how often operations under way are checked
constexpr double kStillMicroseconds = 100e3;  // without anything moving, until a rank asks what its peers do
constexpr double kAskAllSeconds = 0.3;
constexpr double kNewsMicroseconds = 2e6;  // how long news of a rank that gave up may take

}  // namespace

bool StallWatch::is_due(std::uint64_t now) {
  static const std::uint64_t apart = ticks_of_microseconds(kCheckMicroseconds);
  if (now - last_check_ < apart) return false;
  last_check_ = now;
  return true;
}

/// Returns whether a rank of the host gave up so long ago that its reason should have come.
bool StallWatch::is_news_late(std::uint64_t now) {
  if (parts_.host.stopped() && stopped_since_ == 0) stopped_since_ = now;
  return stopped_since_ != 0 && static_cast<double>(now - stopped_since_) > kNewsMicroseconds * ticks_per_microsecond();
}

std::optional<Error> StallWatch::check(Operation& operation, std::uint64_t now) {
  if (operation.still_since == 0) operation.still_since = now;
  const double still = static_cast<double>(now - operation.still_since) / ticks_per_microsecond();
  const double seconds = still * 1e-6;
  if (is_news_late(now)) {
    Error error;
    error.code = ErrorCode::aborted;
    error.message = "a rank of this host gave up, and no word of why has come";
    return error;
  }
  if (operation.failure != nullptr) return std::nullopt;
  if (operation.deadline.passed()) return timed_out(find_awaited(operation, seconds), seconds);
  if (still < kStillMicroseconds) return std::nullopt;
  if (operation.active != nullptr && operation.active->awaited.get() < 0)
    OperationRecorder::waiting(operation, operation.still_since);
  const Execution::Waiting waiting = find_awaited(operation, seconds);
  if (operation.idle_since == 0) operation.idle_since = operation.still_since;
  const double limit = parts_.options.timeout;
  if (limit > 0 && microseconds_since(operation.idle_since) > limit * 1e6) return timed_out(waiting, seconds);
  if (waiting.rank < 0) return std::nullopt;
  if (std::optional<Error> error = check_peer(operation, waiting.rank)) return error;
  if (!operation.warned && seconds > settings().late_warning) warn(operation, waiting.rank, seconds);
  return std::nullopt;
}

/// Returns the rank the operation waits for, after so many seconds without anything moving.
Execution::Waiting StallWatch::find_awaited(const Operation& operation, double seconds) {
  const Execution::Waiting waiting = operation.execution.waiting_for();
  if (operation.is_point_to_point() || seconds < kAskAllSeconds) return waiting;
  // The rank we wait for may itself wait: name one that has not come.
  if (many_hosts_) parts_.query.ask_all();
  const int late = parts_.query.find_late_rank(operation.number());
  return late >= 0 && late != waiting.rank ? Execution::Waiting{late, -1, -1} : waiting;
}

/// Returns an error if the rank that is waited for is gone, or runs another call; otherwise asks what it runs.
std::optional<Error> StallWatch::check_peer(Operation& operation, int peer) {
  Error error;
  error.peer = peer;
  const bool left = parts_.host.is_here(peer) && parts_.host.has_left(peer);
  if (left || parts_.failure.is_gone(peer)) {
    // What it had sent may have come after the last check: it is missed only if we still wait at the next one.
    if (std::exchange(operation.missed, peer) != peer) return std::nullopt;
    error.code = ErrorCode::rank_died;
    error.message = fmt::format("rank {} has left", peer);
    return error;
  }
  if (!operation.is_point_to_point()) {
    const auto theirs = parts_.query.signature_of(peer, operation.number());
    if (theirs && *theirs != operation.execution.tag().signature) {
      error.code = ErrorCode::mismatch;
      error.message = parts_.query.describe_mismatch(operation.call, operation.number(), peer);
      return error;
    }
  }
  parts_.query.ask(peer);
  return std::nullopt;
}

void StallWatch::warn(Operation& operation, int peer, double seconds) {
  operation.warned = true;
  parts_.recorder.late(operation, peer, seconds);
  log::warn("rank {}: {}: waiting for rank {} for {:.0f} s{}{}", parts_.identity.rank, operation.name(), peer, seconds,
            parts_.query.describe(peer), parts_.query.describe_lanes(peer));
}

Error StallWatch::timed_out(Execution::Waiting waiting, double seconds) {
  Error error;
  error.code = ErrorCode::timed_out;
  error.peer = waiting.rank;
  error.message = fmt::format("no progress for {:.1f} s", seconds);
  if (waiting.rank >= 0)
    error.message += fmt::format(", waiting for rank {}{}{}", waiting.rank, parts_.query.describe(waiting.rank),
                                 parts_.query.describe_lanes(waiting.rank));
  if (waiting.step >= 0) error.step = fmt::format("worker {} step {}", waiting.worker, waiting.step);
  return error;
}

}  // namespace tutti
