// Communicators that are being made on this host, as telemetry. Pure.
#pragma once

#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"
#include "monitor/read/snapshot.hpp"

namespace tutti::diagnosis {

/// Adds each to the telemetry of the job that its ranks are in. Ranks that are in no job yet get telemetry of their
/// own, with the key of the meeting for its job.
void add_gatherings(const monitor::Snapshot& snapshot, std::vector<Telemetry>& jobs);

}  // namespace tutti::diagnosis
