// Verdicts as `tutti diagnose` prints them. Pure; docs/diagnosis.md explains both forms.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict.hpp"
#include "diagnosis/verdict_watch.hpp"

namespace tutti::cli {

/// A job at a moment, and what is wrong with it.
struct JudgedJob {
  diagnosis::Telemetry telemetry;
  std::vector<diagnosis::Verdict> verdicts;
};

std::string verdicts_text(const std::vector<JudgedJob>& jobs, bool color);
nlohmann::ordered_json verdicts_json(const std::vector<JudgedJob>& jobs, const std::vector<std::string>& problems);

/// A line, without its end.
std::string change_text(const JudgedJob& job, const diagnosis::VerdictChange& change, bool color);
nlohmann::ordered_json change_json(const JudgedJob& job, const diagnosis::VerdictChange& change);

}  // namespace tutti::cli
