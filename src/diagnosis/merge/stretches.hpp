// Who waits for whom in a communicator whose ranks run on several hosts. A host knows the operations of its own ranks
// only, one by one; what it tells of them is how long each rank was in each stretch of some operations. Stretches are
// counted by the numbers of operations, which are the same on all ranks, so nobody's clock is compared: the rank that
// was in a stretch for the shortest time is the one that the others waited for. Pure.
//
// A stretch is whole periods, so that all stretches hold the same calls, and eight operations at least, so that a rank
// has 32 of them at most to tell. A summary of a rank over all of its past would be smaller, but hosts look at
// different moments: while a rank turns slow, some hosts would tell of before and others of after.
#pragma once

#include <span>
#include <vector>

#include "diagnosis/rhythm.hpp"
#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::diagnosis {

/// Fills in the stretches that all of these ranks, those of one host, have behind them. None where there are gaps.
void learn_stretches(std::span<const RankHistory> ranks, CommunicatorFacts& communicator);

/// What each rank waited until the last had come, from the same communicator as different hosts know it. Stretches that
/// all hosts tell of count; nothing where these are fewer than three.
std::vector<WaitFacts> waits_across(std::span<const CommunicatorFacts* const> hosts);

}  // namespace tutti::diagnosis
