// A plan on the counts of one call: in how many tiles it runs, and where each of its chunks lies. The same for every
// run of the call, whatever its buffers.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/call.hpp"
#include "engine/extents.hpp"
#include "engine/plan.hpp"
#include "engine/straight_line.hpp"
#include "tutti/error.hpp"

namespace tutti {

class BoundPlan {
 public:
  /// `stage_bytes`: of scratch that peers reach. Fails if the plan cannot carry the call (scratch of unknown size with
  /// uneven blocks); call only unbind(), is_bound() and bind() then.
  Status bind(const TiledPlan& tiled, const Call& call, std::size_t stage_bytes);
  void unbind() { plan_ = nullptr; }
  bool is_bound() const { return plan_ != nullptr; }

  /// Works out what is the same in every run. To be called before each run; only the first takes time.
  void prepare() {
    if (!prepared_) work_out();
  }

  const Plan& plan() const { return *plan_; }
  std::size_t tile() const { return tile_; }  // bytes
  std::size_t tiles() const { return tiles_; }
  /// Whether scratch lies in the stage, a tile of it at a time.
  bool staged() const { return staged_; }
  /// Bytes of scratch that is this rank's alone.
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  /// Bytes of the caller's input (or output), from the first to the last.
  std::size_t buffer_bytes(Buffer buffer) const { return buffer_bytes_[static_cast<int>(buffer)]; }
  /// The whole plan as a sequence of simple steps; empty if it is not that simple, or before prepare().
  const std::vector<StraightStep>& straight_line() const { return straight_line_; }

  /// Returns where a chunk of a step's operand lies in its buffer. Operands are the step's sources, then its targets.
  Extent extent_of(const PlanStep& step, std::size_t operand, int chunk, std::size_t tile) const {
    const Cells& cells = operand_of(step.step, operand);
    if (tiles_ > 1) return tile_extent(cells, chunk, tile);
    const std::size_t before = operand * static_cast<std::size_t>(cells.count) + static_cast<std::size_t>(chunk);
    return kept_[static_cast<std::size_t>(step.first_chunk) + before];
  }

 private:
  void work_out();
  void choose_tile(const TiledPlan& tiled, std::size_t stage_bytes);
  Extent extent_on(int rank, Buffer buffer, int chunk) const;
  Extent scratch_extent(int rank, int chunk) const;
  Extent tile_extent(const Cells& cells, int chunk, std::size_t tile) const;

  const Plan* plan_ = nullptr;
  std::size_t tile_ = 0;
  std::size_t tiles_ = 1;
  std::size_t largest_chunk_ = 0;
  std::size_t scratch_stride_ = 0;
  std::size_t scratch_bytes_ = 0;
  bool staged_ = false;
  bool prepared_ = false;
  Extents extents_[2];
  std::size_t buffer_bytes_[2] = {};
  std::vector<Extent> kept_;  // by chunk of the plan, if there is one tile only
  std::vector<StraightStep> straight_line_;
};

}  // namespace tutti
