// Finds the compact form of a program: whether all ranks do the same up to a shift by the rank, and which steps are
// rounds of a loop. The pattern found expands to exactly the same parts.
#pragma once

#include "program/pattern.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// One pattern for all ranks where there is one, else a pattern for each rank. Looks at every rank's part.
/// Fails where a part exceeds kMaxStepsOfRank, where all parts together exceed 64 Mi steps, or where they share no
/// pattern and exceed 4 Mi.
Result<ProgramPattern> fold(const Program& program);

}  // namespace tutti
