// The scene of `tutti demo` in which things go wrong and are named: a rank of a training-like loop is stopped and goes
// on; then, if there are rails, one becomes slow and recovers. What is printed is what `tutti diagnose --watch` says.
#pragma once

namespace tutti::cli {

/// Plays it; returns the exit status: 1 if the stopped rank was not named.
int play_diagnosis(bool simulated);

}  // namespace tutti::cli
