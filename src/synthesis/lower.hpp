// From schedules to programs: which worker does what, in which buffer.
//
// Each pair of ranks, direction and channel has a worker; steps come in the order of the schedule, and wait for one
// another only where cells demand it (algorithm/builder.hpp), so phases overlap as far as data allows. Chunks that only
// pass through live in scratch, where cells are used again once they are free. Since every step and every dependency
// keeps the one order of the schedule, no program made here can deadlock, with any number of slots.
// Programs hold the schedule; parts are made on demand. Of a thousand ranks that differ by a translation, one's part is
// made, and moved to the others. Pure functions.
#pragma once

#include <string>

#include "synthesis/schedule.hpp"

namespace tutti {

struct LowerOptions {
  std::string name;       // of the program
  int instances = 1;      // copies side by side, each on its own channels and its own share of every chunk
  int channels = 1;       // chunks take turns on so many channels between two ranks
  int routes_period = 1;  // Routes::period() of the topology: channels that differ by it take the same route
  bool merges = true;     // transfers of consecutive chunks that can go at the same time are one step
  bool reuses_scratch = true;
  // Of a schedule with a symmetry: above, one part is made and moved, and nothing is merged.
  int most_ranks_written_out = kMostRanksWrittenOut;
};

/// The collective of the schedule itself.
Result<Program> lower(const Schedule& schedule, const LowerOptions& options);

/// Backwards, for a schedule made on the reversed topology: all_gather becomes reduce_scatter, broadcast reduce,
/// scatter gather and gather scatter.
Result<Program> lower_reversed(const Schedule& schedule, const LowerOptions& options);

/// An all_reduce: `up` backwards, then `down`; both all_gathers, or both broadcasts with the same root,
/// of as many chunks. What is reduced is distributed while the rest is still on its way.
Result<Program> lower_all_reduce(const Schedule& up, const Schedule& down, const LowerOptions& options);

}  // namespace tutti
