#include "diagnosis/diagnose.hpp"

#include <algorithm>

#include "diagnosis/findings.hpp"

namespace tutti::diagnosis {

std::vector<Verdict> diagnose(const Telemetry& telemetry, const DiagnosisOptions& options) {
  std::vector<Verdict> verdicts;
  find_mismatches(telemetry, verdicts);
  find_deaths(telemetry, verdicts);
  find_missing_at_start(telemetry, options, verdicts);
  find_stuck(telemetry, options, verdicts);
  find_slow_transfers(telemetry, options, verdicts);
  find_stragglers(telemetry, options, verdicts);
  excuse_starved(telemetry, options, verdicts);
  find_corruption(telemetry, verdicts);
  find_unobserved(telemetry, verdicts);
  find_repeated(telemetry, verdicts);
  std::stable_sort(verdicts.begin(), verdicts.end(),
                   [](const Verdict& one, const Verdict& other) { return one.fault < other.fault; });
  return verdicts;
}

}  // namespace tutti::diagnosis
