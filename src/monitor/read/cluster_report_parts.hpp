// How a situation is worked out, part by part: each takes a communicator whose ranks are filled in. Pure.
#pragma once

#include "monitor/read/cluster_report.hpp"

namespace tutti::monitor {

/// Fills in `waits` and `blockers`.
void find_waits(CommunicatorSituation& communicator, double now);
void find_stragglers(CommunicatorSituation& communicator);
void find_mismatches(CommunicatorSituation& communicator);
/// Sentences on all of it.
void judge(Situation& situation, const SituationOptions& options);

/// Null: it is not recorded here.
const RankSituation* find_rank(const CommunicatorSituation& communicator, int rank);

}  // namespace tutti::monitor
