// Communicators that are being made, put together from what their ranks have recorded: who has come, and who is
// missing. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "monitor/read/snapshot.hpp"

namespace tutti::monitor {

/// A rank that waits for the others, and its process: an index in Snapshot::processes.
struct WaitingRank {
  int rank = 0;
  std::size_t process = 0;
};

struct RankMeeting {
  std::uint64_t key = 0;  // the same on all ranks
  int size = 0;
  double began = 0;                  // for the first of these
  std::vector<WaitingRank> waiting;  // that live and are recorded here, in order of rank
  bool whole = false;                // the store is recorded here
  /// As the store says: a rank that waits and is not among these does not reach it. If not `whole`, those that wait
  /// here.
  std::vector<int> joined;

  /// Ranks that have not joined.
  std::vector<int> missing() const;
};

/// Those that a living process of the snapshot waits for.
std::vector<RankMeeting> rank_meetings_of(const Snapshot& snapshot);

}  // namespace tutti::monitor
