// How long the threads of processes of this host were ready to run and had no core, as the kernel counts it.
#pragma once

#include <map>

#include "monitor/read/snapshot.hpp"

namespace tutti::diagnosis {

/// Seconds since each process began, of its thread that waited longest, by pid. Processes that are gone, and those of
/// other users where their counts are not shown, are left out.
std::map<int, double> read_starvation(const monitor::Snapshot& snapshot);

}  // namespace tutti::diagnosis
