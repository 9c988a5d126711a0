// Verdicts over time: which of them are new, and which are over. A verdict is the same as one before if it has the same
// class and suspects. Slowness comes and goes with the noise of measurements: it is told once it was seen twice, and is
// over once it was not seen three times. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict.hpp"

namespace tutti::diagnosis {

struct VerdictChange {
  bool began = false;  // else: it is over
  double at = 0;       // moment
  double lasted = 0;   // seconds since it was told; 0 where it began
  Verdict verdict;
};

class VerdictWatch {
 public:
  /// `past`: what was told and was over before.
  explicit VerdictWatch(std::vector<PastFault> past = {}) : past_(std::move(past)) {}

  /// What has changed since the look before, of this job.
  std::vector<VerdictChange> update(const Telemetry& telemetry, std::vector<Verdict> verdicts);
  /// What was told and is over, of all jobs; the last thousands.
  const std::vector<PastFault>& past() const { return past_; }

 private:
  struct Known {
    Verdict verdict;
    double first_seen = 0, last_seen = 0, told_at = 0;
    int seen = 0, unseen = 0;  // looks in a row
    bool told = false;
  };

  std::map<std::pair<std::uint64_t, std::string>, Known> known_;  // by job
  std::vector<PastFault> past_;
};

}  // namespace tutti::diagnosis
