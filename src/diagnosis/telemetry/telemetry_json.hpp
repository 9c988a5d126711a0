// Telemetry and verdicts as JSON. Telemetry is one line for each job and moment: {"telemetry": 1, ...}, where 1 is the
// version of the format; fields that have their default are left out. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict.hpp"
#include "diagnosis/verdict_watch.hpp"
#include "tutti/error.hpp"

namespace tutti::diagnosis {

inline constexpr int kTelemetryVersion = 1;

/// Without the end of the line.
std::string line_of(const Telemetry& telemetry);
/// As in telemetry: "running".
std::string_view name_of(ProcessState state);
/// Rounds numbers to microseconds, and large ones to whole ones, so that the line becomes short.
void shorten(Telemetry& telemetry);
/// Any bytes: what comes out refers to processes and ranks that exist, else there is an error that says where.
Result<Telemetry> parse_telemetry(std::string_view line);

/// `realtime_offset`: as in the telemetry the verdict is from; `since` is told as seconds since 1970.
nlohmann::ordered_json json_of(const Verdict& verdict, double realtime_offset);
/// `telemetry`: of the job at that look.
nlohmann::ordered_json json_of(const VerdictChange& change, const Telemetry& telemetry);

}  // namespace tutti::diagnosis
