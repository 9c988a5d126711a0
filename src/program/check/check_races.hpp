// The rule `races`. Internal to the checker.
// Happens-before here is program order, `after` and messages; slots order nothing, since a run may have more of them.
#pragma once

#include <optional>
#include <vector>

#include "program/check/check_cells.hpp"
#include "program/check/check_graph.hpp"

namespace tutti::checking {

/// The first violation in each of the placements.
std::vector<std::optional<Violation>> check_races(const ProgramParts& parts, const EventGraph& graph,
                                                  const std::vector<int>& order,
                                                  const std::vector<Placement>& placements);

}  // namespace tutti::checking
