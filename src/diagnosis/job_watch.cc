#include "diagnosis/job_watch.hpp"

#include <utility>

#include "diagnosis/diagnose.hpp"

namespace tutti::diagnosis {

std::vector<JudgedJob> judge(std::vector<Telemetry> jobs, const std::vector<PastFault>& past) {
  std::vector<JudgedJob> judged;
  judged.reserve(jobs.size());
  for (Telemetry& telemetry : jobs) {
    JudgedJob job{std::move(telemetry), {}};
    job.telemetry.past.insert(job.telemetry.past.end(), past.begin(), past.end());
    job.verdicts = diagnose(job.telemetry);
    judged.push_back(std::move(job));
  }
  return judged;
}

void JobWatch::look(std::vector<Telemetry> seen, const Tell& tell) {
  constexpr int kLooksToEnd = 3;
  const auto update = [&](const JudgedJob& job) {
    for (const VerdictChange& change : watch_.update(job.telemetry, job.verdicts)) tell(job, change);
  };
  for (const auto& [id, job] : jobs_) ++looks_without_[id];
  for (JudgedJob& job : judge(std::move(seen), watch_.past())) {
    update(job);
    const std::uint64_t id = job.telemetry.job;
    looks_without_[id] = 0;
    jobs_[id] = std::move(job);
  }
  for (auto& [id, job] : jobs_) {
    if (looks_without_[id] == 0) continue;
    job.verdicts.clear();
    update(job);
  }
  std::erase_if(jobs_, [&](const auto& each) { return looks_without_[each.first] == kLooksToEnd; });
  std::erase_if(looks_without_, [&](const auto& each) { return each.second == kLooksToEnd; });
}

}  // namespace tutti::diagnosis
