// The proof that a program does what its collective promises, whatever the timing.
// Knows nothing of generators. Rules, in the order they are applied (the first broken one is reported):
//   limits       ranks, buffers, chunks, peers and dependencies in range; step shapes as step kinds demand
//   matching     the i-th send of (source, target, channel) has an i-th receive with as many chunks, and every signal
//                its wait; one worker sends and one receives, one signals and one waits on a (source, target, channel)
//   deadlock     program order, dependencies, matching and finite slots form no cycle; a cycle is told as a sentence.
//                A step that forwards what it receives holds the incoming slot until it has one to send into
//   races        two accesses to a cell, one a write, are ordered; remote accesses end before their owner's last step.
//                Slots order nothing here: a run may have more of them. What a send reads may be overwritten by later
//                steps of its rank (the engine guards it), and by other ranks once the matching receive is done
//   values       contributions are tracked with the order of operands: reading undefined data, counting a
//                contribution twice, mixing chunks of different extents, writing an input that is not also an output
//                are errors; `completes` stands on exactly the steps that combine operands into a complete value
//   result       the collective's postcondition
// races, values and result are proven separately for out of place and in place, as the program claims to allow.
// A barrier has no bytes: contributions may be counted twice there, and `completes` means nothing.
// Functions here keep no state; any thread may call them. Programs from files need no trust: whatever a Program holds,
// the answer is a report, at a cost bounded by the options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct CheckOptions {
  int slots = 2;            // chunks a sender may run ahead of its receiver on one channel
  int max_workers = 512;    // per rank
  int max_steps = 1 << 20;  // per worker
  int max_channels = 64;
  std::int64_t max_cells = 1 << 24;  // chunks that all ranks together hold, and that all steps together move
};

/// Where and why a program is wrong.
struct Violation {
  enum class Rule { limits, matching, deadlock, races, values, result };
  Rule rule = Rule::limits;
  int rank = -1;  // -1, as for worker and step: the fault is not of one
  int worker = -1;
  int step = -1;
  std::string message;
  bool too_large = false;  // it exceeds CheckOptions::max_cells, and may be right

  /// "races: rank 2, worker 1, step 4: writes output 3 while rank 0 worker 0 step 2 may still read it"
  std::string to_string() const;
};
std::string_view name_of(Violation::Rule rule);

struct CheckReport {
  std::optional<Violation> violation;
  // What a correct reduction does to a value:
  int roundings = 0;        // at most so many roundings on the way to any output element; a step rounds once
  bool rank_order = false;  // every output is reduced strictly from rank 0 upwards; true where nothing is reduced
  bool ordered_operands =
      false;  // operands appear in rank order under any bracketing: fit for non-commutative functions

  bool ok() const { return !violation.has_value(); }
};

CheckReport check(const Program& program, const CheckOptions& options = {});

/// The same for the program in which every rank does what its representative does (Translations::representative_of),
/// translated (translated_parts.hpp). Only the representatives' parts are looked at, so that the cost is theirs: a
/// thousand ranks that all do the same cost little more than one. Whether a rank's part is its representative's,
/// translated, is for check_part() to say. Violations name representatives.
CheckReport check_translated(const Program& program, const Translations& symmetry, const CheckOptions& options = {});

/// Whether the part of `rank` is its representative's, translated, but for the order in which reductions take their
/// operands, which changes no result but for its rounding. Names the first step that differs.
std::optional<Violation> check_part(const Program& program, const Translations& symmetry, int rank);

/// The rule `limits` alone: whether the program is one that may be run at all. Looks at every rank's part.
std::optional<Violation> check_limits(const Program& program, const CheckOptions& options = {});

/// Sets `completes` on the steps that complete a reduction, for programs from formats that cannot say it, and clears
/// it elsewhere. Fails where the program breaks any rule up to `values`, or where a step completes only some of its
/// chunks.
Result<Program> annotate_completion(const Program& program);

}  // namespace tutti
