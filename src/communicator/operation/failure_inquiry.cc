// How operations of a communicator fail: what is known at once is completed by what peers and control say a moment
// later, and nothing is given back to callers before peers have left their memory.
#include <fmt/core.h>

#include <utility>

#include "base/log.hpp"
#include "communicator/impl.hpp"
#include "memory/region.hpp"

namespace tutti {
namespace {

constexpr double kVerdictSeconds = 0.3;  // for control to say that a process has died, and why
constexpr double kAnswerSeconds = 0.3;   // for a peer to say what it called

bool is_lost(const Error& error) {
  return error.peer >= 0 && (error.code == ErrorCode::system || error.code == ErrorCode::rank_died);
}

bool is_mismatch(const Error& error) { return error.peer >= 0 && error.code == ErrorCode::mismatch; }

}  // namespace

/// Fails an operation; `breaks`: and the communicator. A transport that fails has most likely lost its peer. Control
/// knows for sure, and more, a moment later: the peer may have said why it goes. A peer that called something else is
/// asked what.
void CommunicatorImpl::begin_failure(Operation& operation, Error error, bool breaks) {
  Deadline until = Deadline::in(0);
  if (is_lost(error)) until = Deadline::in(kVerdictSeconds);
  if (is_mismatch(error) && !failure_.is_broken()) {
    until = Deadline::in(kAnswerSeconds);
    if (operation.is_point_to_point())
      query_.ask_other_end(error.peer, operation.call.sends, operation.number());
    else
      query_.ask(error.peer);
  }
  operation.failure = std::make_unique<PendingFailure>(PendingFailure{std::move(error), until, breaks});
}

/// Returns whether all is known of a failure that will be. What control says breaks the communicator, see service().
bool CommunicatorImpl::is_explained(const Operation& operation) {
  const Error& error = operation.failure->error;
  if (operation.failure->until.passed()) return true;
  if (is_lost(error)) return false;
  if (!is_mismatch(error)) return true;
  if (operation.is_point_to_point())
    return query_.other_end(error.peer, operation.call.sends, operation.number()).has_value();
  return query_.is_known(error.peer);
}

/// Reports the failure of the queue's operation once it is explained. Returns whether it did.
bool CommunicatorImpl::conclude_failure(OperationQueue& queue) {
  Operation& operation = *queue.active;
  if (!is_explained(operation)) return false;
  const bool breaks = operation.failure->breaks;
  Error error = std::move(operation.failure->error);
  if (is_lost(error)) {
    error.code = ErrorCode::rank_died;
    error.message = fmt::format("rank {} died or cannot be reached ({})", error.peer, error.message);
  } else if (is_mismatch(error)) {
    error.message = operation.is_point_to_point()
                        ? query_.describe_mismatch_of_ends(operation.call, operation.number(), error.peer)
                        : query_.describe_mismatch(operation.call, operation.number(), error.peer);
  }
  error = with_context(std::move(error), operation);
  operation.failure.reset();
  if (breaks || error.code == ErrorCode::rank_died) break_with(error, true);
  if (!breaks) {
    finish(queue, operation, &error);
    activate_next(queue);
  }
  return true;
}

/// The same for all that have failed, if nothing else may go on.
bool CommunicatorImpl::conclude_failures() {
  const bool received = progress_tcp();
  const bool concluded = scheduler_.advance_active(
      [&](OperationQueue& queue) { return queue.active->failure != nullptr && conclude_failure(queue); });
  return received || concluded;
}

Error CommunicatorImpl::with_context(Error error, const Operation& operation) const {
  error.rank = rank();
  if (error.operation.empty()) error.operation = operation.name();
  return error;
}

/// Fails all operations of a broken communicator, once their memory is their callers' again: no peer of this host
/// touches it, and links to other hosts are closed. Peers of other processes that do not come out of a step in time
/// (they may stand still) lose what they could write into. Returns whether it is done.
bool CommunicatorImpl::fail_all() {
  bool started = false;
  scheduler_.for_each_active([&](const Operation& operation) { started = started || operation.started; });
  if (started && !fence_.close()) return progress_tcp();
  const Operation* const collective = scheduler_.active_collective();
  if (collective != nullptr && collective->started && !fence_.stuck().empty()) {
    const int peer = fence_.stuck().front();
    for (const std::span<std::byte> buffer : collective->execution.exposed()) {
      if (buffer.empty() || buffer.data() == nullptr) continue;
      const auto* const address = static_cast<const void*>(buffer.data());
      if (const Status revoked = revoke(buffer.data(), buffer.size()); !revoked)
        log::error("rank {}: rank {} may still write into the {} bytes at {}: {}", rank(), peer, buffer.size(), address,
                   revoked.error().message);
      else
        log::debug("rank {}: rank {} is still in the operation; it can no longer write into the {} bytes at {}", rank(),
                   peer, buffer.size(), address);
    }
  }
  plans_->clear();
  bound_calls_.clear();
  const Error error = status().error();
  scheduler_.fail_all([&](Operation& operation) {
    recorder_.left(operation, true);
    return with_context(error, operation);
  });
  return true;
}

}  // namespace tutti
