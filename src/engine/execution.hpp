// A plan running on the buffers of one call. advance() takes every worker as far as it can go and never blocks; the
// caller decides how to wait. Owned and driven by one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/call.hpp"
#include "engine/extents.hpp"
#include "engine/plan.hpp"
#include "monitor/operation_log.hpp"
#include "reduce/reduce.hpp"
#include "transport/shm/host.hpp"

namespace tutti {

class Execution {
 public:
  enum class State : std::uint8_t { running, done, failed };

  Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Binds the call to a plan, and to another (or none) that runs instead if every rank's buffers can be mapped.
  /// `host` is for one-sided plans; `stop`, once true, keeps any further step from running.
  /// Fails where a plan cannot carry the call (scratch of unknown size with uneven blocks).
  Status start(const Way& way, const Way& when_mapped, const Call& call, OperationTag tag, Host* host,
               const std::atomic<bool>* stop = nullptr);

  /// Where to tell of progress, from the next start on; null: nowhere. `log`: of each step, too, and when it was run.
  void observe(monitor::Active* active, monitor::OperationLog* log) {
    active_ = active;
    traced_ = log;
  }

  /// The same call once more, on buffers that may be others.
  void restart(OperationTag tag, const void* send, void* recv);

  /// True if anything moved. Look at state() after.
  bool advance();

  State state() const { return state_; }
  const Error& error() const { return error_; }
  const Plan& plan() const { return *now_->plan; }
  OperationTag tag() const { return tag_; }
  /// Buffers of the caller that peers of other processes may be told to write into.
  struct Exposed {
    void* memory = nullptr;
    std::size_t bytes = 0;
  };
  std::array<Exposed, 2> exposed() const;

  /// The communicator rank some worker waits for, and in which step; -1 when none does.
  struct Waiting {
    int rank = -1;
    int worker = -1;
    int step = -1;
  };
  Waiting waiting_for() const;

 private:
  static constexpr int kNoticed = 64;  // polls in vain

  struct Cursor {
    int chunk = 0;
    std::size_t offset = 0;
  };
  struct WorkerState {
    std::size_t tile = 0;
    int step = 0;
    bool begun = false;
    std::uint64_t begun_at = 0;  // ticks, where steps are traced
    Cursor in;
    Cursor out;
    std::vector<std::uint64_t> sent_mark;  // per step: link's sent() when the step was done
    std::uint64_t temporary_mark = 0;      // the same for the last step that forwarded from `temporary`
    std::vector<std::byte> temporary;      // results that are forwarded and not stored
  };
  struct BriefStep {
    struct Place {
      int buffer = 0;
      std::size_t offset = 0;
    };
    PlanWorker* worker;
    const PlanStep* ready;
    std::uint16_t worker_index = 0;
    std::uint16_t step_index = 0;
    Place source{};
    Place target{};
    std::size_t bytes = 0;
  };
  struct Binding {  // a plan on the extents of the call
    const Plan* plan = nullptr;
    std::size_t tile = 0;
    std::size_t tiles = 1;
    std::size_t largest_chunk = 0;
    std::size_t scratch_stride = 0;
    bool staged = false;  // scratch lies in the host's stage, a tile of it at a time
    Extents extents[2];
    std::size_t buffer_bytes[2] = {};       // of the caller's buffers, first to last byte
    std::vector<Extent> extents_of_chunks;  // by chunk of the plan, where there is one tile
    std::vector<BriefStep> brief;           // all steps in a line, where they are so simple
  };
  struct Remote {              // a peer's buffers, as its entry said
    std::uint32_t number = 0;  // of that entry
    std::byte* mapped[2] = {};
    std::uint64_t address[2] = {};
  };
  struct Span {
    std::byte* data = nullptr;  // null: has to be pulled from `address`
    std::uint64_t address = 0;
    std::size_t bytes = 0;
    int rank = kSelf;
  };

  // execution.cc
  Status bind(const Way& way, const Call& call, Binding& binding);
  void begin(OperationTag tag);
  void prepare();
  void enter();
  void end_use();
  bool decide();
  bool know(const std::vector<Cells>& cells);
  bool learn(int peer);
  bool has_entered(int peer, const Entry& entry);
  bool run_worker(std::size_t index);
  bool may_begin(const PlanWorker& worker, const WorkerState& state, const PlanStep& ready);
  bool ends_after_all_began() const;
  bool all_reached(std::size_t tile) const;
  bool sends_released();
  void hear();
  void tell_step(std::size_t worker, std::size_t tile, int steps_done);
  void trace(std::size_t worker, int step, std::size_t tile, std::uint64_t begun);
  bool fail_with(Error error);
  bool fail_about(int peer, Error error);
  /// Operands are a step's sources, then its targets.
  Span span_of(const PlanStep& ready, std::size_t operand, int chunk, std::size_t tile) const;
  Extent extent_of(const PlanStep& ready, std::size_t operand, int chunk, std::size_t tile) const;
  Extent extent_on(int rank, Buffer buffer, int chunk) const;
  Extent scratch_extent(int rank, int chunk) const;
  Extent tile_extent(const Cells& cells, int chunk, std::size_t tile) const;
  void keep_extents();

  // brief.cc
  void line_up();
  std::optional<BriefStep> shorten(const PlanWorker& worker, const PlanStep& ready) const;
  bool run_brief();
  bool take_brief(const BriefStep& step);
  std::byte* at(const BriefStep::Place& place);

  // steps.cc: true when the step is done
  bool take_step(PlanWorker& worker, WorkerState& state, const PlanStep& ready);
  bool run_step(PlanWorker& worker, WorkerState& state, const PlanStep& ready);
  bool offer(PlanWorker& worker, const PlanStep& ready, const std::byte* data, std::size_t bytes);
  bool run_send(PlanWorker& worker, WorkerState& state, const PlanStep& ready);
  bool run_receive(PlanWorker& worker, WorkerState& state, const PlanStep& ready);
  void announce(PlanWorker& worker, const WorkerState& state, const PlanStep& ready);
  bool forward(PlanWorker& worker, WorkerState& state, const PlanStep& ready);
  std::byte* result_of(WorkerState& state, const PlanStep& ready, int chunk);
  void apply(const PlanStep& ready, const Arrival& arrival, WorkerState& state, std::byte* target);
  void store(const Step& step, const Arrival& arrival, const std::byte* local, std::byte* target);
  bool run_copy(const WorkerState& state, const PlanStep& ready);
  bool run_reduce(const WorkerState& state, const PlanStep& ready);
  const void* reachable(const Span& span, std::size_t at, std::size_t bytes, std::size_t bounce);
  void combine(void* const* targets, int target_count, const void* const* sources, int source_count, std::size_t bytes,
               bool completes);
  bool wrong_chunk(const PlanWorker& worker, const Arrival& arrival);

  Binding bound_[2];  // usually, and when all buffers can be mapped
  Binding* now_ = &bound_[0];
  OperationTag tag_;
  State state_ = State::done;
  Error error_;
  Host* host_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
  monitor::Active* active_ = nullptr;
  monitor::OperationLog* traced_ = nullptr;
  std::uint64_t traced_until_ = 0;  // ticks: of the brief steps
  bool heard_ = false;              // something of another rank
  int idle_polls_ = 0;              // before that
  bool has_entry_ = false;          // this rank has said where its buffers lie
  bool deciding_ = false;           // which of the two
  std::size_t met_ = 0;

  std::byte* base_[2] = {};
  std::vector<std::byte> scratch_;
  std::vector<std::byte> bounce_;
  std::size_t brief_at_ = 0;
  bool brief_announced_ = false;
  std::vector<WorkerState> workers_;
  std::size_t finished_ = 0;
  std::vector<Remote> remotes_;
  std::vector<int> used_;  // peers whose mapped memory this operation uses

  DataType type_ = DataType::uint8;
  Reduction reduction_;
  ReduceKernel kernel_ = nullptr;
  bool stream_ = false;
};

/// Something came from another rank.
inline void Execution::hear() {
  if (heard_) return;
  heard_ = true;
  // What came within a microsecond or two was not waited for, and reading the clock would take as long.
  if (idle_polls_ >= kNoticed && active_ != nullptr) active_->met.set(ticks());
}

inline void Execution::tell_step(std::size_t worker, std::size_t tile, int steps_done) {
  if (active_ != nullptr && worker < monitor::kWorkers)
    active_->progress[worker].set(tile << 32 | static_cast<std::uint32_t>(steps_done));
}

}  // namespace tutti
