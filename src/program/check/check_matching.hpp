// Which send meets which receive, and which signal which wait. Internal to the checker.
#pragma once

#include <optional>

#include "program/check/check_graph.hpp"

namespace tutti::checking {

/// Fills the message and slot edges of a graph whose events are laid out. Applies the rule `matching`.
std::optional<Violation> link_messages(const ProgramParts& parts, int slots, EventGraph& graph);

}  // namespace tutti::checking
