#include "cli/monitor/diagnose_view.hpp"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/support/terminal.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"
#include "diagnosis/wording.hpp"

namespace tutti::cli {
namespace {

using diagnosis::FaultClass;
using diagnosis::Telemetry;
using diagnosis::Verdict;
using diagnosis::VerdictChange;
using Json = nlohmann::ordered_json;

/// Whether the job does not go on with it.
bool stops_the_job(FaultClass fault) {
  switch (fault) {
    case FaultClass::crashed:
    case FaultClass::frozen:
    case FaultClass::missing_at_start:
    case FaultClass::not_entered:
    case FaultClass::transfer_stuck:
    case FaultClass::mismatched_call:
    case FaultClass::deadlocked:
    case FaultClass::corrupted:
      return true;
    default:
      return false;
  }
}

std::string class_text(const Verdict& verdict, bool color) {
  const Color shade = stops_the_job(verdict.fault) ? Color::red : Color::yellow;
  return paint(name_of(verdict.fault), shade, color);
}

std::string job_text(const Telemetry& telemetry) {
  return fmt::format("{}{}", telemetry.command.empty() ? "job " : telemetry.command + ", job ",
                     fmt::format("{:016x}", telemetry.job).substr(0, 8));
}

/// Names of communicators, as many as a line holds.
std::string communicators_text(const Telemetry& telemetry, const Verdict& verdict) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < verdict.communicators.size() && i < kShown; ++i)
    for (const diagnosis::CommunicatorFacts& each : telemetry.communicators)
      if (each.id == verdict.communicators[i]) text += (text.empty() ? "" : ", ") + name_of(each);
  if (verdict.communicators.size() > kShown) text += fmt::format(" and {} more", verdict.communicators.size() - kShown);
  return text;
}

/// How sure it is, since when, and who suffers.
std::string details_text(const Telemetry& telemetry, const Verdict& verdict) {
  std::string text = fmt::format("{:.0f} % sure", 100 * verdict.confidence);
  if (verdict.since > 0) text += fmt::format("; since {}", diagnosis::lasting(telemetry.now - verdict.since));
  if (const std::string names = communicators_text(telemetry, verdict); !names.empty()) text += "; in " + names;
  if (!verdict.suspects.empty() && !verdict.suspects.front().position.empty())
    text += "; " + verdict.suspects.front().position;
  if (verdict.suspects.size() > 1 && verdict.suspects.front().confidence < verdict.confidence)
    text += fmt::format("; the first of {} suspects: {:.0f} %", verdict.suspects.size(),
                        100 * verdict.suspects.front().confidence);
  return text;
}

std::string id_text(const Telemetry& telemetry) { return fmt::format("{:016x}", telemetry.job); }

}  // namespace

std::string verdicts_text(const std::vector<JudgedJob>& jobs, bool color) {
  std::string text;
  std::size_t processes = 0, verdicts = 0;
  for (const JudgedJob& job : jobs) {
    processes += job.telemetry.processes.size();
    verdicts += job.verdicts.size();
    if (!job.verdicts.empty()) text += fmt::format("{}:\n", job_text(job.telemetry));
    for (const Verdict& verdict : job.verdicts)
      text += fmt::format("  {}: {}\n    {}\n", class_text(verdict, color), verdict.text,
                          details_text(job.telemetry, verdict));
  }
  if (verdicts == 0 && !jobs.empty())
    text += fmt::format("{}: {} job{}, {} process{}\n", paint("nothing is wrong", Color::green, color), jobs.size(),
                        jobs.size() == 1 ? "" : "s", processes, processes == 1 ? "" : "es");
  return text;
}

Json verdicts_json(const std::vector<JudgedJob>& jobs, const std::vector<std::string>& problems) {
  Json list = Json::array();
  bool ok = true;
  for (const JudgedJob& job : jobs) {
    Json verdicts = Json::array();
    for (const Verdict& each : job.verdicts) verdicts.push_back(json_of(each, job.telemetry.realtime_offset));
    ok = ok && job.verdicts.empty();
    list.push_back({{"id", id_text(job.telemetry)},
                    {"command", job.telemetry.command},
                    {"time", job.telemetry.now + job.telemetry.realtime_offset},
                    {"processes", job.telemetry.processes.size()},
                    {"verdicts", verdicts}});
  }
  return {{"version", 1}, {"ok", ok}, {"problems", problems}, {"jobs", list}};
}

std::string change_text(const JudgedJob& job, const VerdictChange& change, bool color) {
  const auto time = static_cast<std::time_t>(change.at + job.telemetry.realtime_offset);
  const std::string when = fmt::format("{:%H:%M:%S}", fmt::localtime(time));
  if (change.began)
    return fmt::format("{} {}: {} ({})", when, class_text(change.verdict, color), change.verdict.text,
                       details_text(job.telemetry, change.verdict));
  return fmt::format("{} {} after {}: {}: {}", when, paint("over", Color::green, color),
                     diagnosis::lasting(change.lasted), name_of(change.verdict.fault), change.verdict.text);
}

}  // namespace tutti::cli
