// The rhythm of a job, learned from the operations that ranks have behind them: how long a period (a training step) is,
// how long a rank is usually in an operation, who waits for whom. From it follows what is unusual. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::diagnosis {

/// A collective that is over.
struct PastOperation {
  std::uint32_t number = 0;
  std::uint32_t signature = 0;
  bool together = false;  // its ranks leave it at about the same time
  double entered = 0, done = 0;
};

/// Of one rank of a communicator.
struct RankHistory {
  int rank = 0;
  std::vector<PastOperation> operations;  // in order
};

/// What one rank's operations say.
RhythmFacts learn_rhythm(std::span<const PastOperation> operations);
std::vector<CallSiteFacts> learn_sites(std::span<const PastOperation> operations);

/// Who waited for whom in the operations that all of these ranks have behind them. Whoever was in one for the shortest
/// time came last: clocks are not compared.
std::vector<WaitFacts> learn_waits(std::span<const RankHistory> ranks, const RhythmFacts& rhythm);

}  // namespace tutti::diagnosis
