// Generated jobs with no fault, one or two, and what diagnose() says of them: a line of JSON per job
// (bench/diagnosis_scale.py).
//
//   diagnosis_bench RANKS healthy|single|double SEED COUNT
//
// single: COUNT jobs of each class of faults; double: COUNT jobs, each with two classes that are drawn.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "diagnosis/diagnose.hpp"
#include "diagnosis/synthetic_job_test_kit.hpp"

namespace tutti::diagnosis {
namespace {

/// Of this process: others on its cores do not count.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void run_trial(int ranks, std::uint64_t seed, const std::vector<FaultClass>& faults) {
  SyntheticJob job(ranks, seed);
  std::mt19937_64 random(seed + 1);
  std::uniform_real_distribution<double> severity(0, 1);
  std::vector<double> severities;
  for (const FaultClass fault : faults) job.inject(fault, severities.emplace_back(severity(random)));
  const Telemetry telemetry = job.finish();
  const double begin = cpu_seconds();
  const std::vector<Verdict> verdicts = diagnose(telemetry);
  const double seconds = cpu_seconds() - begin;
  const auto found = std::count_if(job.expected().begin(), job.expected().end(), [&](const ExpectedVerdict& expected) {
    return std::any_of(verdicts.begin(), verdicts.end(), [&](const Verdict& each) { return is_met(expected, each); });
  });
  std::vector<std::string> names, said;
  for (const FaultClass fault : faults) names.push_back(fmt::format("\"{}\"", name_of(fault)));
  for (const Verdict& verdict : verdicts) said.push_back(fmt::format("\"{}\"", name_of(verdict.fault)));
  fmt::print(
      "{{\"ranks\": {}, \"seed\": {}, \"faults\": [{}], \"severities\": [{:.3f}], \"said\": [{}], \"expected\": {}, "
      "\"found\": {}, \"seconds\": "
      "{:.6f}}}\n",
      ranks, seed, fmt::join(names, ", "), fmt::join(severities, ", "), fmt::join(said, ", "), job.expected().size(),
      found, seconds);
  std::fflush(stdout);
}

/// Two classes that can be seen at once.
std::vector<FaultClass> draw_two(std::mt19937_64& random) {
  std::uniform_int_distribution<int> any(0, kFaultClasses - 1);
  while (true) {
    const auto one = static_cast<FaultClass>(any(random)), other = static_cast<FaultClass>(any(random));
    if (SyntheticJob::go_together(one, other)) return {one, other};
  }
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5) return 2;
  const int ranks = std::atoi(arguments[1].c_str());
  const auto seed = static_cast<std::uint64_t>(std::atoll(arguments[3].c_str()));
  const int count = std::atoi(arguments[4].c_str());
  if (ranks < 64 || ranks % 64 != 0) return 2;
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t own = seed + 1000 * static_cast<std::uint64_t>(i);
    if (arguments[2] == "healthy") run_trial(ranks, own, {});
    if (arguments[2] == "double") run_trial(ranks, own, draw_two(random));
    if (arguments[2] != "single") continue;
    for (int fault = 0; fault < kFaultClasses; ++fault)
      run_trial(ranks, own + static_cast<std::uint64_t>(fault), {static_cast<FaultClass>(fault)});
  }
  return 0;
}

}  // namespace
}  // namespace tutti::diagnosis

int main(int count, char** arguments) { return tutti::diagnosis::run({arguments, arguments + count}); }
