// What diagnose() is made of: each part looks at the telemetry for faults of its kind, and adds verdicts. Pure.
#pragma once

#include <string>
#include <vector>

#include "diagnosis/diagnose.hpp"
#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict.hpp"

namespace tutti::diagnosis {

void find_mismatches(const Telemetry& telemetry, std::vector<Verdict>& verdicts);
/// After mismatches, which look like deaths to those that see them.
void find_deaths(const Telemetry& telemetry, std::vector<Verdict>& verdicts);
/// Ranks that have not come to make a communicator.
void find_missing_at_start(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts);
/// Freezes, ranks that are not in an operation, deadlocks, transfers that stand still. After deaths and mismatches, to
/// which it adds the communicators that wait because of them.
void find_stuck(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts);
/// Slow links, senders, receivers and paths; lanes that are lost.
void find_slow_transfers(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts);
/// Ranks whose computation others wait for.
void find_stragglers(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts);
void find_corruption(const Telemetry& telemetry, std::vector<Verdict>& verdicts);
void find_unobserved(const Telemetry& telemetry, std::vector<Verdict>& verdicts);
/// Slowness of a process whose threads find no core is put down to that. After all that find slowness.
void excuse_starved(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts);
/// Says of faults that were there before that a restart does not help.
void find_repeated(const Telemetry& telemetry, std::vector<Verdict>& verdicts);

/// A process as a suspect.
Suspect suspect_of(const Telemetry& telemetry, int process, double confidence);

}  // namespace tutti::diagnosis
