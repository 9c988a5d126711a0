// One telemetry of a job from those of its hosts, so that diagnose() sees the job as a whole. Each host knows its own
// processes; of others it knows ranks at most (ProcessState::elsewhere), which are replaced by what their own host
// says. Pure; any thread.
//
// The moment that is judged is the one up to which all hosts that answer have told what they know: what one host has
// seen later says nothing of how long ranks of another have stood still. A host that does not answer does not hold that
// up: its processes are `unreachable`.
#pragma once

#include <span>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::diagnosis {

/// What a host says of one of its jobs.
struct HostTelemetry {
  const Telemetry* telemetry = nullptr;  // as RecordingObserver::Reach::job tells it; check_telemetry() found it whole
  double now = 0;                        // up to when it holds, on the host's clock; at least telemetry->now
  double offset = 0;                     // seconds to add to moments of the host's clock
  bool heard = true;                     // the host answers
};

/// One for each job, in order of its id. Moments are on the clock to which the offsets lead.
std::vector<Telemetry> merge_telemetry(std::span<const HostTelemetry> hosts);

}  // namespace tutti::diagnosis
