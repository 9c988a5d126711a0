// The classes of faults that a verdict may name. docs/diagnosis.md explains each.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti::diagnosis {

/// Those that stop a job come first, up to `deadlocked`.
enum class FaultClass : std::uint8_t {
  crashed,           // a process died
  frozen,            // a process stands still, by a signal or a debugger
  missing_at_start,  // ranks have not come to make the communicator
  not_entered,       // alive, and not in the operation that others are in
  transfer_stuck,    // all are in the operation, and bytes do not move
  mismatched_call,   // ranks called different operations under one number
  deadlocked,        // ranks wait for one another in several operations
  slow_link,         // from one process to another
  slow_sender,       // all that a process sends
  slow_receiver,     // all that a process receives
  slow_path,         // whoever uses it
  straggler,         // others wait for its computation
  starved,           // its threads find no core
  flapping,          // a lane is lost and comes back, again and again
  path_down,         // a lane is lost; the job goes on without it
  unobserved,        // nothing is known of a rank that works
  repeated,          // the same fault in the same place as before
  corrupted,         // data arrived other than it was sent
};
inline constexpr int kFaultClasses = 18;

/// "slow_link"
std::string_view name_of(FaultClass fault);
std::optional<FaultClass> fault_of(std::string_view name);

}  // namespace tutti::diagnosis
