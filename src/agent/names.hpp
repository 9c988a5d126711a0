// How sizes and bandwidths are told in metrics: as by NCCL's tools, so that dashboards made for NCCL Inspector show
// ours.
#pragma once

#include <cstdint>
#include <string>

#include "program/program.hpp"

namespace tutti::agent {

/// "64-256KB", of a size class (monitor/layout.hpp).
std::string size_range(int size_class);
/// What bytes over time are multiplied with to have the bandwidth of the bus, as NCCL's tests define it.
double bus_factor(Collective collective, int ranks);

/// What a communicator is called: its name, or where the program gave it none, the first half of its id.
std::string communicator_name(const std::string& name, std::uint64_t id);

}  // namespace tutti::agent
