// An operation that all ranks have entered and in which nothing moves: which transfer is to blame? Pure.
#pragma once

#include "diagnosis/stuck_operations.hpp"
#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict.hpp"

namespace tutti::diagnosis {

/// A verdict of class transfer_stuck. The flow that has done least while chunks of it are out is to blame: those before
/// it in the order of the operation are full, those behind it are starved but have brought over all that they were
/// given.
Verdict judge_transfer(const Telemetry& telemetry, const StuckOperation& operation);

}  // namespace tutti::diagnosis
