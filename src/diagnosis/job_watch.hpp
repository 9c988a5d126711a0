// Judges jobs look after look, and tells what is new and what is over (verdict_watch.hpp). Of a job that is no longer
// seen nothing is wrong: by the third look without it all of its verdicts are over. Faults that are over make later
// ones `repeated`. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict.hpp"
#include "diagnosis/verdict_watch.hpp"

namespace tutti::diagnosis {

/// A job at a moment, and what is wrong with it.
struct JudgedJob {
  Telemetry telemetry;
  std::vector<Verdict> verdicts;
};

/// `past`: faults that are over.
std::vector<JudgedJob> judge(std::vector<Telemetry> jobs, const std::vector<PastFault>& past = {});

class JobWatch {
 public:
  using Tell = std::function<void(const JudgedJob& job, const VerdictChange& change)>;

  /// `past`: faults that were over before.
  explicit JobWatch(std::vector<PastFault> past = {}) : watch_(std::move(past)) {}

  /// `seen`: all jobs that there are, once each.
  void look(std::vector<Telemetry> seen, const Tell& tell);
  /// Those of the last looks, by id.
  const std::map<std::uint64_t, JudgedJob>& jobs() const { return jobs_; }

 private:
  VerdictWatch watch_;
  std::map<std::uint64_t, JudgedJob> jobs_;
  std::map<std::uint64_t, int> looks_without_;  // of jobs that are no longer seen
};

}  // namespace tutti::diagnosis
