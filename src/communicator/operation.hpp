// One operation of a communicator, from the call to its end; what a Work points to.
// The owner of the communicator's token drives it; `done` is its only word other threads read (acquire; error_ is
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

class CommunicatorImpl;

struct ExecutionState {
  Call call;
  Execution execution;
  Deadline deadline;                               // it fails then, and breaks the communicator
  std::uint64_t still_since = 0;                   // ticks: the first look since which nothing has moved; 0: none
  std::uint64_t idle_since = 0;                    // ticks: when it was first seen to wait for long; 0: not yet
  bool warned = false;                             // of a late rank
  int missed = -1;                                 // the rank it waited for, and that had left, at the last look
  std::shared_ptr<CommunicatorImpl> communicator;  // keeps it alive while the operation is under way
  std::weak_ptr<CommunicatorImpl> home;

  std::atomic<bool> done{false};
  std::unique_ptr<Error> error;

  monitor::Title title;
  bool recorded = false;              // it was entered
  monitor::Active* active = nullptr;  // while it is under way, where that is recorded

  profiler::ProfiledOperation profiled;

  // What the call points to, where it has to outlive the caller's arguments.
  std::vector<std::size_t> counts[4];
  std::vector<std::byte> staged;  // the input, where the program cannot run on the caller's own

  /// Copies the spans of the call into `counts`.
  void own_counts();
};

using Operation = ExecutionState;

}  // namespace tutti
