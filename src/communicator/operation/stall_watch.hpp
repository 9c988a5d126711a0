// Checks operations that do not move: finds out whom they wait for, warns, and says when they have to be given up.
// Never blocks. Used by the owner of the communicator's token.
#pragma once

#include <cstdint>
#include <optional>

#include "communicator/operation/failure_state.hpp"
#include "communicator/operation/identity.hpp"
#include "communicator/operation/operation.hpp"
#include "communicator/operation/operation_recorder.hpp"
#include "communicator/operation/peer_query.hpp"
#include "transport/shm/host.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

class StallWatch {
 public:
  struct Parts {  // all must outlive it
    const Identity& identity;
    const Options& options;
    Host& host;
    FailureState& failure;
    PeerQuery& query;
    OperationRecorder& recorder;
  };
  /// `many_hosts`: the communicator has ranks on other hosts.
  StallWatch(const Parts& parts, bool many_hosts) : parts_(parts), many_hosts_(many_hosts) {}

  /// Returns whether it is time to check the operations again; if so, the caller must.
  bool is_due(std::uint64_t now);
  /// Checks an operation under way. Returns the error that is to break the communicator, if any.
  std::optional<Error> check(Operation& operation, std::uint64_t now);
  /// Notes that the operation has moved.
  static void moved(Operation& operation) {
    if (operation.still_since == 0) return;
    operation.still_since = 0;
    OperationRecorder::woken(operation);
  }

 private:
  bool is_news_late(std::uint64_t now);
  Execution::Waiting find_awaited(const Operation& operation, double seconds);
  std::optional<Error> check_peer(Operation& operation, int peer);
  void warn(Operation& operation, int peer, double seconds);
  Error timed_out(Execution::Waiting waiting, double seconds);

  Parts parts_;
  const bool many_hosts_;
  std::uint64_t last_check_ = 0;     // ticks
  std::uint64_t stopped_since_ = 0;  // ticks: when it was first seen that a rank of the host gave up; 0: not yet
};

}  // namespace tutti
