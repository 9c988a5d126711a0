// Slurm's compact lists. Pure functions of text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

/// "node[1-3,07],gpu5" is node1, node2, node3, node07, gpu5. Several brackets in a name multiply. At most 65,536 names.
Result<std::vector<std::string>> expand_nodelist(std::string_view text);

/// SLURM_STEP_TASKS_PER_NODE: "4(x2),1" is 4, 4, 1.
Result<std::vector<int>> expand_tasks_per_node(std::string_view text);

}  // namespace tutti
