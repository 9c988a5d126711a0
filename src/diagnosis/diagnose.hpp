// diagnose() turns telemetry into verdicts. Pure: what it says follows from the telemetry alone; any thread. It takes
// time in proportion to the telemetry, about 10 us for each rank.
//
// Ranks are compared with one another and with the job's own rhythm, never with fixed times alone: how long a silence
// must last before it is a fault, and how slow is slow, follows from how long and how evenly the job does things.
#pragma once

#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict.hpp"

namespace tutti::diagnosis {

struct DiagnosisOptions {
  double least_patience = 2;      // seconds that an operation may stand still, whatever the rhythm
  double stopped_patience = 0.5;  // the same where a process that is needed is stopped
  double warm_up_patience = 10;   // the same before the rhythm is known
  double least_slowdown = 1.08;   // of a delay, to be told
  double least_wait = 0.05;       // share of the time that others wait for a straggler
  double least_starved = 0.2;     // share of the time without a core
  int least_losses = 3;           // of a lane, to be flapping
};

/// The verdicts, those that stop a job first. Empty: nothing is wrong.
std::vector<Verdict> diagnose(const Telemetry& telemetry, const DiagnosisOptions& options = {});

}  // namespace tutti::diagnosis
