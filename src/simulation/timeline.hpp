// A simulation as a picture (SVG): time from left to right, a row for each rank, a bar for each piece it sends, in the
// colour of the slowest link on its way. Of many ranks and pieces the first are shown, which the title says. Pure.
#pragma once

#include <string>

#include "simulation/simulate.hpp"
#include "topology/routes.hpp"

namespace tutti {

/// For a simulation that keeps its flights.
std::string timeline_svg(const Simulation& simulation, Routes& routes, const std::string& title);

}  // namespace tutti
