// Completes the errors of operations that fail, by what is known a moment later.
//
// A transport that fails has most likely lost its peer: control knows for sure, and why the peer went. A peer that
// called something else is asked what. Until then, 0.3 s at most, the failure is a state of the operation
// (PendingFailure) and nothing blocks. Used by the owner of the communicator's token.
#pragma once

#include <optional>

#include "communicator/operation/failure_state.hpp"
#include "communicator/operation/identity.hpp"
#include "communicator/operation/operation.hpp"
#include "communicator/operation/peer_query.hpp"

namespace tutti {

class FailureInquiry {
 public:
  /// All must outlive it.
  FailureInquiry(const Identity& identity, const FailureState& failure, PeerQuery& query)
      : identity_(identity), failure_(failure), query_(query) {}

  /// Marks an operation as failed, and asks the peer that can explain it. `breaks`: the communicator fails with it.
  void begin(Operation& operation, Error error, bool breaks);
  /// Returns the complete error of an operation that has failed; none if its explanation may still come. What control
  /// says breaks the communicator, which ends all operations.
  std::optional<Error> conclude(const Operation& operation);

 private:
  bool is_explained(const Operation& operation);

  const Identity& identity_;
  const FailureState& failure_;
  PeerQuery& query_;
};

}  // namespace tutti
