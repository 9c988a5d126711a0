// One operation of a communicator, from the call to its end; what a Work points to.
// The owner of the communicator's token drives it; `done` is its only word other threads read (acquire; `error` is
// written before it is set, release).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "engine/call.hpp"
#include "engine/execution.hpp"
#include "monitor/operation_log.hpp"
#include "profiler/profiler.hpp"

namespace tutti {

class OperationDriver;

/// A failure that may still be explained: by the news of a death, or by the answer of a peer.
struct PendingFailure {
  Error error;
  Deadline until;       // it is reported as it is then
  bool breaks = false;  // the communicator
};

struct Operation {
  Call call;
  Execution execution;
  bool started = false;                         // peers may touch its memory
  Deadline deadline;                            // it fails then, and breaks the communicator
  std::unique_ptr<PendingFailure> failure;      // it has failed, and nobody was told yet
  std::uint64_t still_since = 0;                // ticks: the first check since which nothing has moved; 0: none
  std::uint64_t idle_since = 0;                 // ticks: when it was first seen to wait for long; 0: not yet
  bool warned = false;                          // of a late rank
  int missed = -1;                              // the rank it waited for, and that had left, at the last check
  std::shared_ptr<OperationDriver> keep_alive;  // while the operation is under way; the communicator with it
  std::weak_ptr<OperationDriver> driver;        // of a submitted operation

  std::atomic<bool> done{false};
  std::unique_ptr<Error> error;

  monitor::Title title;
  bool recorded = false;              // it was entered
  monitor::Active* active = nullptr;  // while it is under way, where that is recorded

  profiler::ProfiledOperation profiled;

  // What the call points to, if it has to outlive the caller's arguments.
  std::vector<std::size_t> counts[4];
  std::vector<std::byte> staged;  // the input, if the program cannot run on the caller's own

  /// Forgets what happened when it ran before.
  void reset() {
    done.store(false, std::memory_order_relaxed);
    error.reset();
    failure.reset();
    started = false;
    still_since = 0;
    idle_since = 0;
    warned = false;
    missed = -1;
  }
  /// Copies the spans of the call into `counts`.
  void own_counts();
  /// Copies the input, if it must not be read as it is: programs know no factor of a rank's own, and no exchange within
  /// one buffer.
  void stage_input(int ranks);

  bool is_point_to_point() const { return call.collective == Collective::point_to_point; }
  std::uint32_t number() const { return execution.tag().number; }
  /// Returns "all_reduce #4".
  std::string name() const;
  /// Returns an error of this operation with the rank it is reported on, and with its name if the error names none.
  Error attribute(Error reported, int rank) const;
};

}  // namespace tutti
