// A simulation as a trace that the Perfetto UI opens: a process for each rank, a track for each rank it sends to (more
// where pieces are on their way at once), a slice for each piece. One thread.
#pragma once

#include <string>

#include "simulation/simulate.hpp"
#include "tutti/error.hpp"

namespace tutti::cli {

/// For a simulation that keeps its flights. Errors name the file.
Status write_flights(const Simulation& simulation, const std::string& path);

}  // namespace tutti::cli
