// The proof that a program does what its collective promises, whatever the timing.
// Knows nothing of generators. Rules, in the order they are applied (the first broken one is reported):
//   limits       ranks, buffers, chunks, peers and dependencies in range; step shapes as step kinds demand
//   matching     the i-th send of (source, target, channel) has an i-th receive with as many chunks of the same size
//                class, and every signal its wait; one worker sends and one receives on a (source, target, channel)
//   deadlock     program order, dependencies, matching and finite slots form no cycle; a cycle is told as a sentence
//   values       contributions are tracked with the order of operands: reading undefined data, counting a
//                contribution twice, mixing chunks are errors; `completes` stands on exactly the completing steps
//   races        two accesses to a cell, one a write, are ordered; remote accesses end before their owner's last step
//   result       the collective's postcondition
// values, races and result are proven separately for out of place and in place, as the program claims to allow.
#pragma once

#include <optional>
#include <string>

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct CheckOptions {
  int slots = 2;           // chunks a sender may run ahead of its receiver on one channel
  int max_workers = 512;   // per rank
  int max_steps = 1 << 20; // per worker
  int max_channels = 64;
};

/// Where and why a program is wrong.
struct Violation {
  enum class Rule { limits, matching, deadlock, values, races, result };
  Rule rule = Rule::limits;
  int rank = -1;
  int worker = -1;
  int step = -1;
  std::string message;

  /// "races: rank 2, worker 1, step 4: writes output 3 while rank 0, worker 0, step 2 may still read it"
  std::string to_string() const;
};
std::string_view name_of(Violation::Rule rule);

struct CheckReport {
  std::optional<Violation> violation;
  // What a correct reduction does to a value:
  int roundings = 0;            // at most so many roundings on the way to any output element
  bool rank_order = false;      // every output is reduced strictly in rank order, so results do not depend on size
  bool ordered_operands = false;  // operands appear in rank order under any bracketing: fit for non-commutative functions

  bool ok() const { return !violation.has_value(); }
};

CheckReport check(const Program& program, const CheckOptions& options = {});

/// Sets `completes` on the steps that complete a reduction, for programs from formats that cannot say it.
/// Fails where the program does not pass the checker up to `values`.
Result<Program> annotate_completion(const Program& program);

}  // namespace tutti
