#include "communicator/operation/failure_inquiry.hpp"

#include <fmt/core.h>

#include <utility>

namespace tutti {
namespace {

constexpr double kVerdictSeconds = 0.3;  // for control to say that a process has died, and why
constexpr double kAnswerSeconds = 0.3;   // for a peer to say what it called

bool is_lost(const Error& error) {
  return error.peer >= 0 && (error.code == ErrorCode::system || error.code == ErrorCode::rank_died);
}

bool is_mismatch(const Error& error) { return error.peer >= 0 && error.code == ErrorCode::mismatch; }

}  // namespace

void FailureInquiry::begin(Operation& operation, Error error, bool breaks) {
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

/// Returns whether all is known of a failure that will be.
bool FailureInquiry::is_explained(const Operation& operation) {
  const Error& error = operation.failure->error;
  if (operation.failure->until.passed()) return true;
  if (is_lost(error)) return false;
  if (!is_mismatch(error)) return true;
  if (operation.is_point_to_point())
    return query_.other_end(error.peer, operation.call.sends, operation.number()).has_value();
  return query_.is_known(error.peer);
}

std::optional<Error> FailureInquiry::conclude(const Operation& operation) {
  if (!is_explained(operation)) return std::nullopt;
  Error error = operation.failure->error;
  if (is_lost(error)) {
    error.code = ErrorCode::rank_died;
    error.message = fmt::format("rank {} died or cannot be reached ({})", error.peer, error.message);
  } else if (is_mismatch(error)) {
    error.message = operation.is_point_to_point()
                        ? query_.describe_mismatch_of_ends(operation.call, operation.number(), error.peer)
                        : query_.describe_mismatch(operation.call, operation.number(), error.peer);
  }
  return operation.attribute(std::move(error), identity_.rank);
}

}  // namespace tutti
