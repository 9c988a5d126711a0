// What is said of GPUs in a verdict's sentence. Pure functions.
#pragma once

#include <string>

#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::diagnosis {

/// "runs at 1,005 of 1,980 MHz, hardware thermal slowdown"
std::string throttle_text(const GpuFacts& gpu);
/// "reported XID 79 (it has fallen off the bus) 3.1 s ago"
std::string xid_text(const XidFacts& xid, double now);
/// What is wrong with its memory, as in "has counted 2 uncorrected ECC errors"; empty: nothing.
std::string memory_text(const GpuFacts& gpu);
/// "has counted 12 NVLink errors within a minute"; empty: nothing.
std::string link_text(const GpuFacts& gpu);

/// Whether the error only follows from another one.
bool is_consequence(const XidFacts& xid);

}  // namespace tutti::diagnosis
