// How a report is worked out, part by part: each takes a communicator whose ranks are filled in. Pure.
#pragma once

#include "monitor/read/cluster_report.hpp"

namespace tutti::monitor {

/// Fills in `waits` and `blockers`.
void find_waits(CommunicatorReport& communicator, double now);
void find_stragglers(CommunicatorReport& communicator);
void find_mismatches(CommunicatorReport& communicator);
/// Sentences on all of it.
void judge(ClusterReport& report, const Snapshot& snapshot, const ReportOptions& options);

/// Whether the communicator is broken for this rank. Of ranks that are told to end, those that are told last see the
/// others go, which breaks nothing.
bool is_broken(const RankReport& rank);

/// Null: it is not recorded here.
const RankReport* find_rank(const CommunicatorReport& communicator, int rank);

}  // namespace tutti::monitor
