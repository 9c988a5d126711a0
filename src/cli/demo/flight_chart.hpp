// A simulated run as a picture of text: a row for each rank, time from left to right, and what it sends: within its
// node, or to another. Pure.
#pragma once

#include <string>
#include <vector>

#include "simulation/simulate.hpp"
#include "topology/topology.hpp"

namespace tutti::cli {

/// For a simulation that keeps its flights; none of the lines is wider than 76 columns.
std::vector<std::string> flight_chart(const Simulation& simulation, const Topology& topology, bool color);

}  // namespace tutti::cli
