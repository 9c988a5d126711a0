// What went wrong, in a form a person can act on and a program can branch on.
// tutti throws nothing across its API: every call that can fail returns a Result.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace tutti {

enum class ErrorCode {
  invalid_argument,  // a value given by the caller; the message names it
  mismatch,          // ranks called different operations
  rank_died,         // a process of the communicator is gone
  timed_out,         // a deadline passed; the message says who was waited for
  aborted,           // abort() was called, here or by a peer
  refused,           // wrong secret, wrong version, not allowed
  unsupported,       // cannot be done here; the message says what is missing
  system,            // a system call failed
  no_quorum,         // too few ranks are left to go on without those that are silent
  corrupted,         // bytes came other than they were sent
  internal,          // a defect of tutti
};

std::string_view name_of(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;    // one sentence, without a trailing stop
  int rank = -1;          // the rank that reports it
  int peer = -1;          // the rank it is about
  std::string operation;  // "all_reduce #12"
  std::string step;       // "worker 0 step 3"

  /// "rank 2: all_reduce #12: rank 3 died (killed by signal 9)"
  std::string to_string() const;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// `return fail(ErrorCode::timed_out, "...")` from any function that returns a Result.
tl::unexpected<Error> fail(ErrorCode code, std::string message);

}  // namespace tutti
