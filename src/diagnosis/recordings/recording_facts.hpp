// What recordings of this host say, as telemetry: the part that one look is enough for. Pure.
#pragma once

#include <map>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"
#include "monitor/read/snapshot.hpp"

namespace tutti::diagnosis {

/// A process of a job, and its index in the job's telemetry.
struct SeenProcess {
  const monitor::ProcessView* view = nullptr;
  int index = 0;
};

/// The processes of each job, by its id.
std::map<std::uint64_t, std::vector<SeenProcess>> jobs_of(const monitor::Snapshot& snapshot);

ProcessFacts process_facts(const monitor::ProcessView& view, std::uint64_t job);
/// The communicators of the job that any of its processes still has.
std::vector<CommunicatorFacts> communicator_facts(const std::vector<SeenProcess>& processes, std::uint64_t job,
                                                  double now);
/// Whether all ranks of the job run on this host.
bool is_on_one_host(const std::vector<SeenProcess>& processes, std::uint64_t job);

}  // namespace tutti::diagnosis
