// The form in which small calls run: if every step moves one chunk at once and no send waits for anything received, the
// steps of all workers make one sequence (sends and copies, receives, reductions of what was received), in which
// everything is worked out that does not change from run to run. Ranks that all send first cannot wait for each other
// in a circle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/plan.hpp"

namespace tutti {

class BoundPlan;

struct StraightStep {
  struct Place {
    Buffer buffer = Buffer::input;
    std::size_t offset = 0;
  };
  const PlanWorker* worker;
  const PlanStep* step;
  std::uint16_t worker_index = 0;
  std::uint16_t step_index = 0;
  Place source{};
  Place target{};
  std::size_t bytes = 0;
};

/// Returns all steps of a plan of one tile in a line; empty if they cannot run so.
std::vector<StraightStep> make_straight_line(const BoundPlan& bound);

}  // namespace tutti
