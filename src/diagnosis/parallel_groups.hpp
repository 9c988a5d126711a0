// Which communicators hold tensor, pipeline, data and expert parallel groups, from what is called in them: so that a
// verdict can say in which stage of the model a rank is. What cannot be told apart is `unknown`. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::diagnosis {

enum class ParallelRole : std::uint8_t { unknown, tensor, pipeline, data, expert };

/// A role for each communicator of the telemetry.
std::vector<ParallelRole> recognise_groups(const Telemetry& telemetry);

/// Where in the model a process is: "pipeline stage 2 of 4, tensor part 3 of 8". Empty: nothing is known.
std::string position_of(const Telemetry& telemetry, const std::vector<ParallelRole>& roles, int process);

}  // namespace tutti::diagnosis
