// The rules `values` and `result`: a symbolic run of the program. Internal to the checker.
#pragma once

#include <optional>
#include <vector>

#include "program/check/check_cells.hpp"
#include "program/check/check_graph.hpp"

namespace tutti::checking {

/// What the outputs of a correct program went through.
struct ReductionFacts {
  int roundings = 0;
  bool rank_order = true;
  bool ordered_operands = true;
  bool is_same_in_place = false;  // out of place: in place, every step would do the same to the same values
};

/// Runs the program in `order`, which is as good as any other once races are excluded.
Checked<ReductionFacts> check_values_and_result(const ProgramParts& parts, const EventGraph& graph,
                                                const std::vector<int>& order, Placement placement);

/// For each worker and step, whether it completes a reduction; `completes` in the steps themselves is not looked at.
Checked<std::vector<std::vector<bool>>> find_completing_steps(const ProgramParts& parts, const EventGraph& graph,
                                                              const std::vector<int>& order, Placement placement);

}  // namespace tutti::checking
