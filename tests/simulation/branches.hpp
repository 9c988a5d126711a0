// Counts how often each branch of the code under test was taken, in all seeds together. The compiler calls this at the
// beginning of every basic block of the sources that CMakeLists.txt lists (-fsanitize-coverage=trace-pc), so both sides
// of every guard, and every transition of a state machine, have a count. Counters are in memory that forked processes
// share.
#pragma once

#include <string>

namespace tutti::simulated {

/// Makes the counters. Once, before the program forks.
void count_branches();
/// Writes a line "ADDRESS COUNT" for each branch that was taken: its address as in the program's file, in hexadecimal.
/// Returns whether that succeeded.
bool write_branches(const std::string& path);

}  // namespace tutti::simulated
