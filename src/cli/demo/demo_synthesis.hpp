// The scene of the synthesizer: an all-reduce for two servers, made, drawn over time, and run.
#pragma once

namespace tutti::cli {

/// The exit status.
int play_synthesis();

}  // namespace tutti::cli
