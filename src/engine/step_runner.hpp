// Runs the steps of a plan on the buffers of one call. A step that has to wait is resumed where it stopped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/bound_plan.hpp"
#include "engine/combiner.hpp"
#include "engine/peer_buffers.hpp"
#include "engine/plan.hpp"
#include "engine/run_state.hpp"
#include "transport/one_sided_peers.hpp"

namespace tutti {

/// How far a worker has come.
struct WorkerState {
  struct Cursor {
    int chunk = 0;
    std::size_t offset = 0;
  };
  std::size_t tile = 0;
  int step = 0;
  bool begun = false;                    // the step
  std::uint64_t begun_at = 0;            // ticks, if steps are logged
  Cursor in;                             // what the step has received
  Cursor out;                            // what it has sent
  std::vector<std::uint64_t> sent_mark;  // per step: link's sent() when the step was done
  std::uint64_t temporary_mark = 0;      // the same for the last step that forwarded from `temporary`
  std::vector<std::byte> temporary;      // results that are forwarded and not stored

  /// Starts over, for a worker of `steps` steps.
  void reset(std::size_t steps);
};

class StepRunner {
 public:
  StepRunner(RunState& run, PeerBuffers& buffers) : run_(run), buffers_(buffers) {}

  /// Sets what does not change from run to run. `peers` may be null if the plan is not one-sided.
  void bind(const Call& call, int ranks, OneSidedPeers* peers);
  /// Sets what the next steps work on.
  void begin(const BoundPlan& bound, const void* send, void* recv) {
    bound_ = &bound;
    if (scratch_.size() < bound.scratch_bytes()) scratch_.resize(bound.scratch_bytes());
    base_[static_cast<int>(Buffer::input)] = static_cast<std::byte*>(const_cast<void*>(send));
    base_[static_cast<int>(Buffer::output)] = static_cast<std::byte*>(recv);
    base_[static_cast<int>(Buffer::scratch)] = bound.staged() ? nullptr : scratch_.data();
  }

  /// Prepares a step to run: announces what it will receive.
  void begin_step(const PlanWorker& worker, WorkerState& state, const PlanStep& ready);
  /// Returns true when the step is done; false if it has to wait, or failed.
  bool run_step(const PlanWorker& worker, WorkerState& state, const PlanStep& ready);

  /// Announces what the straight line will receive.
  void begin_straight_line();
  /// Runs steps of the straight line from `at` on, as far as they go or until `stop` is true; null: never. Returns the
  /// first that is not done.
  std::size_t run_straight_line(std::size_t at, const std::atomic<bool>* stop);

 private:
  struct Span {
    std::byte* data = nullptr;  // null: has to be pulled from `address`
    std::uint64_t address = 0;
    std::size_t bytes = 0;
    int rank = kSelf;
  };

  bool run_straight(const StraightStep& step);
  bool take_step(const PlanWorker& worker, WorkerState& state, const PlanStep& ready);
  bool offer(const PlanWorker& worker, const PlanStep& ready, const std::byte* data, std::size_t bytes);
  std::optional<Arrival> receive(const PlanWorker& worker);
  void check_refused(const PlanWorker& worker, const std::optional<Arrival>& arrival);
  bool run_send(const PlanWorker& worker, WorkerState& state, const PlanStep& ready);
  bool run_receive(const PlanWorker& worker, WorkerState& state, const PlanStep& ready);
  bool forward(const PlanWorker& worker, WorkerState& state, const PlanStep& ready);
  std::byte* result_of(WorkerState& state, const PlanStep& ready, int chunk);
  void store(const Step& step, const Arrival& arrival, const std::byte* local, std::byte* target);
  bool run_copy(std::size_t tile, const PlanStep& ready);
  bool run_reduce(std::size_t tile, const PlanStep& ready);
  bool reduce_chunk(std::size_t tile, const PlanStep& ready, int chunk, Span* spans, const void** pointers);
  const void* reachable(const Span& span, std::size_t at, std::size_t bytes, std::size_t bounce);
  bool fail_on_wrong_chunk(const PlanWorker& worker, const Arrival& arrival);
  Span span_of(const PlanStep& ready, std::size_t operand, int chunk, std::size_t tile) const;
  std::byte* base_of(Buffer buffer) const { return base_[static_cast<std::size_t>(buffer)]; }
  std::byte* at(const StraightStep::Place& place) const { return base_of(place.buffer) + place.offset; }

  RunState& run_;
  PeerBuffers& buffers_;
  OneSidedPeers* peers_ = nullptr;
  SharedStage* stage_ = nullptr;  // the peers'
  Combiner combiner_;
  const BoundPlan* bound_ = nullptr;
  std::byte* base_[3] = {};  // by buffer; scratch is null if it is staged
  std::vector<std::byte> scratch_;
  std::vector<std::byte> bounce_;
};

}  // namespace tutti
