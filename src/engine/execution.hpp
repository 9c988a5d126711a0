// A plan running on the buffers of one call. advance() takes every worker as far as it can go and never blocks; the
// caller decides how to wait. Owned and driven by one thread at a time.
//
// Two plans may be bound to a call: the second runs instead if every rank's buffers can be mapped by its peers, which
// shows once they have entered.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/bound_plan.hpp"
#include "engine/call.hpp"
#include "engine/peer_buffers.hpp"
#include "engine/plan.hpp"
#include "engine/run_state.hpp"
#include "engine/step_runner.hpp"
#include "monitor/operation_log.hpp"
#include "transport/one_sided_peers.hpp"

namespace tutti {

class Execution {
 public:
  using State = RunState::State;

  Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Binds the call to a plan, and to another (or none) that runs instead if every rank's buffers can be mapped, and
  /// begins. `peers` may be null if neither plan is one-sided; `stop`, once true, keeps any further step from running.
  /// Fails if a plan cannot carry the call (scratch of unknown size with uneven blocks).
  Status start(const TiledPlan& tiled, const TiledPlan& when_mapped, const Call& call, OperationTag tag,
               OneSidedPeers* peers, const std::atomic<bool>* stop = nullptr);

  /// Sets where progress is recorded, from the next start on; null: nowhere. `log`: every step, with its times. `of`:
  /// for how long which rank is waited for.
  void observe(monitor::Active* active, monitor::OperationLog* log, monitor::CommunicatorRecord* of = nullptr) {
    run_.observe(active, log, of);
  }

  /// Begins the same call once more, on buffers that may be others.
  void restart(OperationTag tag, const void* send, void* recv);

  /// Returns true if anything moved. Look at state() after.
  bool advance();

  State state() const { return run_.state(); }
  const Error& error() const { return run_.error(); }
  const Plan& plan() const { return now_->plan(); }
  OperationTag tag() const { return run_.tag(); }

  /// Returns the caller's buffers that peers of other processes may be told to write into.
  std::array<std::span<std::byte>, 2> exposed() const;

  /// The communicator rank that some worker waits for, and in which step; -1 if none does.
  struct Waiting {
    int rank = -1;
    int worker = -1;
    int step = -1;
  };
  Waiting waiting_for() const;
  /// Records that the operation waits, from `now` on (ticks) if it did not before. For whoever polls seldom; advance()
  /// does it after some polls in which nothing moved.
  void note_wait(std::uint64_t now);

 private:
  void begin(OperationTag tag, const void* send, void* recv);
  void begin_plan();
  void begin_workers();
  void enter();
  bool choose_plan();
  bool run_straight_line();
  bool run_workers();
  bool run_worker(std::size_t index);
  bool run_tile(std::size_t index);
  bool may_begin(const PlanWorker& worker, const WorkerState& state, const PlanStep& ready);
  bool ends_after_all_entered() const;
  bool all_reached(std::size_t tile) const;
  bool all_released();
  bool end();
  bool is_stopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  Waiting waiting_in(std::size_t worker) const;
  std::uint64_t longest_transit(int rank) const;
  std::span<std::byte> buffer(Buffer side) const;

  RunState run_;
  PeerBuffers buffers_{run_};
  StepRunner runner_{run_, buffers_};
  BoundPlan bound_[2];  // usually, and if all buffers can be mapped
  BoundPlan* now_ = &bound_[0];
  OneSidedPeers* peers_ = nullptr;
  SharedStage* stage_ = nullptr;  // the peers'
  const std::atomic<bool>* stop_ = nullptr;
  const void* send_ = nullptr;
  void* recv_ = nullptr;
  bool has_entered_ = false;  // this rank has announced its buffers
  bool choosing_ = false;     // which of the two plans
  std::size_t met_ = 0;       // peers that have entered, while choosing
  std::vector<WorkerState> workers_;
  std::size_t finished_ = 0;  // workers
  std::size_t straight_at_ = 0;
  bool announced_ = false;  // what the straight line receives
};

}  // namespace tutti
