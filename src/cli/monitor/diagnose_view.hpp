// Verdicts as `tutti diagnose` prints them. Pure; docs/diagnosis.md explains both forms.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "diagnosis/job_watch.hpp"
#include "diagnosis/verdict_watch.hpp"

namespace tutti::cli {

using diagnosis::JudgedJob;

std::string verdicts_text(const std::vector<JudgedJob>& jobs, bool color);
nlohmann::ordered_json verdicts_json(const std::vector<JudgedJob>& jobs, const std::vector<std::string>& problems);

/// A line, without its end.
std::string change_text(const JudgedJob& job, const diagnosis::VerdictChange& change, bool color);

}  // namespace tutti::cli
