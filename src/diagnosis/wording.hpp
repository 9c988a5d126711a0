// Words that verdicts are made of. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict.hpp"

namespace tutti::diagnosis {

/// "rank 3 (pid 4711 on node7)"; of several, "ranks 3, 5-7".
std::string text_of(const std::vector<Suspect>& suspects);
std::string text_of(const Suspect& suspect);
/// "all_reduce #17", "send #3 to 2"
std::string title_of(const CallFacts& call);
/// "all_reduce of 4096 bytes of float32, sum"
std::string description_of(const CallFacts& call);
/// "world", "communicator 1f2e3d4c"
std::string name_of(const CommunicatorFacts& communicator);
/// "3.2 s", "410 ms", "12 us"
std::string lasting(double seconds);
/// "0-2, 5"; `numbers`: in order.
std::string ranges_of(const std::vector<int>& numbers);

}  // namespace tutti::diagnosis
