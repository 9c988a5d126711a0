// What `tutti topo measure` prints for people. Pure.
#pragma once

#include <string>

#include "measure/findings.hpp"
#include "measure/measurements.hpp"

namespace tutti::cli {

/// Tables of pairs and ports, and a sentence for whatever was found to be shared.
std::string report_of(const Measurements& measurements, const Findings& findings);

}  // namespace tutti::cli
