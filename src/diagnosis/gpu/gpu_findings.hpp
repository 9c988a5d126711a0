// What GPUs say of themselves, joined to what was found without them. A GPU alone is no verdict: one that is hot, or
// has counted errors, is nobody's concern while nobody waits for its process. Pure.
#pragma once

#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict.hpp"

namespace tutti::diagnosis {

/// A process whose GPU is slowed down, and more than those of most others, is slow because it computes slowly: such
/// stragglers are told with the reason, and slowness of all that it sends or receives is put down to that. After all
/// that find slowness.
void excuse_throttled(const Telemetry& telemetry, std::vector<Verdict>& verdicts);

/// Adds what is wrong with the GPUs of those that died or stand still, and with the NVLinks of those that exchange
/// slowly within their host.
void add_gpu_evidence(const Telemetry& telemetry, std::vector<Verdict>& verdicts);

}  // namespace tutti::diagnosis
