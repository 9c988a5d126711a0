// Runs cases together on one rank, as their mode says, and checks what came of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cases.hpp"
#include "tutti/communicator.hpp"

namespace tutti::integration {

/// Empty if all is right, else what is wrong with which case. `seed` decides the order of calls on this rank.
std::string run_batch(const std::vector<Case>& cases, Communicator& communicator, std::uint64_t seed);

}  // namespace tutti::integration
