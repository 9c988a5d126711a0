// Whether telemetry from outside is whole: whatever it refers to exists, so that diagnose() need not look. Pure.
#pragma once

#include "diagnosis/telemetry/telemetry.hpp"
#include "tutti/error.hpp"

namespace tutti::diagnosis {

/// An error names the first thing that is wrong.
Status check_telemetry(const Telemetry& telemetry);

}  // namespace tutti::diagnosis
