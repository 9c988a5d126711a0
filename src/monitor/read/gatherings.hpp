// Communicators that are being made, put together from what their ranks have recorded: who has come, and who is
// missing. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "monitor/read/snapshot.hpp"

namespace tutti::monitor {

struct Gathering {
  /// A rank that waits, and its process: an index in Snapshot::processes.
  struct Waiting {
    int rank = 0;
    std::size_t process = 0;
  };

  std::uint64_t key = 0;  // the same on all ranks
  int size = 0;
  double began = 0;              // for the first of these
  std::vector<Waiting> waiting;  // that live and are recorded here, in order of rank
  /// As the store says, if it is recorded here: a rank that waits and is not among these does not reach the store.
  std::vector<int> joined;
  bool whole = false;  // it is

  /// Ranks of the first 4,096 that have not joined.
  std::vector<int> missing() const;
};

/// Those that a living process of the snapshot waits for.
std::vector<Gathering> gatherings_of(const Snapshot& snapshot);

}  // namespace tutti::monitor
