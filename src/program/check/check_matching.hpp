// Which send meets which receive, and which signal which wait. Internal to the checker.
#pragma once

#include <optional>

#include "program/check/check_graph.hpp"

namespace tutti::checking {

/// Fills the messages of a graph whose events are laid out. Applies the rule `matching`.
std::optional<Violation> link_messages(const ProgramParts& parts, EventGraph& graph);

}  // namespace tutti::checking
