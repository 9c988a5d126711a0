#include "diagnosis/diagnose.hpp"

#include <algorithm>

#include "diagnosis/findings.hpp"
#include "diagnosis/gpu/gpu_findings.hpp"
#include "diagnosis/parallel_groups.hpp"

namespace tutti::diagnosis {
namespace {

/// Where in the model suspects are. Only where there are any: nobody asks that of a job that works.
void name_positions(const Telemetry& telemetry, std::vector<Verdict>& verdicts) {
  constexpr std::size_t kNamed = 8;  // suspects of a verdict
  if (verdicts.empty()) return;
  const std::vector<ParallelRole> roles = recognise_groups(telemetry);
  for (Verdict& verdict : verdicts)
    for (std::size_t i = 0; i < verdict.suspects.size() && i < kNamed; ++i)
      if (verdict.suspects[i].process >= 0)
        verdict.suspects[i].position = position_of(telemetry, roles, verdict.suspects[i].process);
}

}  // namespace

std::vector<Verdict> diagnose(const Telemetry& telemetry, const DiagnosisOptions& options) {
  std::vector<Verdict> verdicts;
  find_mismatches(telemetry, verdicts);
  find_deaths(telemetry, verdicts);
  find_missing_at_start(telemetry, options, verdicts);
  find_stuck(telemetry, options, verdicts);
  find_slow_transfers(telemetry, options, verdicts);
  find_stragglers(telemetry, options, verdicts);
  excuse_starved(telemetry, options, verdicts);
  excuse_throttled(telemetry, verdicts);
  find_corruption(telemetry, verdicts);
  find_unobserved(telemetry, verdicts);
  find_repeated(telemetry, verdicts);
  add_gpu_evidence(telemetry, verdicts);
  name_positions(telemetry, verdicts);
  std::stable_sort(verdicts.begin(), verdicts.end(),
                   [](const Verdict& one, const Verdict& other) { return one.fault < other.fault; });
  return verdicts;
}

}  // namespace tutti::diagnosis
