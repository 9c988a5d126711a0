#include "program/formats/mscclpp_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "program/check/check_cells.hpp"
#include "program/formats/mscclpp_wires.hpp"

namespace tutti::mscclpp {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

tl::unexpected<Error> beyond(std::string message) { return fail(ErrorCode::unsupported, std::move(message)); }

/// Collects a block's operations, with a nop (all threads of the block meet) wherever the executor needs one: only one
/// thread waits and signals, while all of them move data.
class BlockWriter {
 public:
  void wait(std::string_view name, int connection, std::vector<int> semaphores = {}) {
    operations_.push_back({name, {}, {}, connection, std::move(semaphores)});
    has_waited_ = true;
  }

  void move(std::string_view name, std::vector<Cells> sources, std::vector<Cells> targets, int connection = -1) {
    if (has_waited_ || has_moved_) meet();
    operations_.push_back({name, std::move(sources), std::move(targets), connection, {}});
    has_moved_ = true;
  }

  void signal(std::string_view name, int connection, std::vector<int> semaphores = {}) {
    if (has_moved_) meet();
    operations_.push_back({name, {}, {}, connection, std::move(semaphores)});
  }

  std::vector<PlanOperation>& operations() { return operations_; }

 private:
  void meet() {
    operations_.push_back({"nop", {}, {}, -1, {}});
    has_waited_ = has_moved_ = false;
  }

  std::vector<PlanOperation> operations_;
  bool has_waited_ = false;  // since all met
  bool has_moved_ = false;
};

/// A step of a worker of the rank.
using StepId = Dependency;

/// The plan of one rank: at first a block for each worker; long ones are split, and where there are too many semaphores
/// short ones joined.
class RankPlanner {
 public:
  RankPlanner(const checking::ProgramParts& parts, const checking::CellMap& cells, const WireTable& wiring, int rank)
      : parts_(parts), cells_(cells), wiring_(wiring), rank_(rank) {
    for (int w = 0; w < static_cast<int>(parts.ranks[at(rank)].workers.size()); ++w) {
      blocks_.emplace_back();
      for (int s = 0; s < static_cast<int>(worker(w).steps.size()); ++s) blocks_.back().push_back({w, s});
    }
  }

  Result<RankPlan> plan() {
    if (const Status status = check_operands(); !status) return tl::unexpected(status.error());
    find_needs();
    for (int block = 0; block < static_cast<int>(blocks_.size()); ++block)
      while (static_cast<int>(write(block).operations.size()) > kMostOperations)
        if (const Status status = split(block); !status) return tl::unexpected(status.error());
    while (static_cast<int>(needs_.size()) > kMostSemaphores)
      if (!join_two()) return too_many_semaphores();
    RankPlan plan;
    plan.scratch_chunks = wiring_.scratch_chunks(rank_);
    plan.semaphores = static_cast<int>(needs_.size());
    for (int block = 0; block < static_cast<int>(blocks_.size()); ++block)
      if (!blocks_[at(block)].empty()) plan.blocks.push_back(write(block).operations);
    if (static_cast<int>(plan.blocks.size()) > kMostBlocks)
      return beyond(
          fmt::format("rank {} needs {} thread blocks; {} run at a time", rank_, plan.blocks.size(), kMostBlocks));
    return plan;
  }

 private:
  /// Steps of one block that another waits for, in the order of both: one semaphore counts them.
  struct Need {
    std::vector<int> steps;
    int semaphore = 0;
  };

  struct Written {
    std::vector<PlanOperation> operations;
    std::vector<int> ends;  // by step: how many operations there are after it
  };

  const Worker& worker(int index) const { return parts_.ranks[at(rank_)].workers[at(index)]; }
  const Step& step(StepId id) const { return worker(id.worker).steps[at(id.step)]; }
  int number(StepId id) const { return wiring_.step_number(parts_.first_worker[at(rank_)] + id.worker, id.step); }
  int position(StepId id) const { return wiring_.position(number(id)); }
  std::string place(StepId id) const { return fmt::format("rank {} worker {} step {}", rank_, id.worker, id.step); }

  Status check_operands() const {
    for (const std::vector<StepId>& block : blocks_)
      for (const StepId id : block)
        if (static_cast<int>(step(id).sources.size()) > kMostOperands)
          return beyond(fmt::format("{} reduces {} cells; MSCCL++ plans hold {}", place(id), step(id).sources.size(),
                                    kMostOperands));
    return {};
  }

  /// What a step must wait for: what it names, and the one before it.
  std::vector<StepId> causes_of(StepId id) const {
    std::vector<StepId> causes = step(id).after;
    if (id.step > 0) causes.push_back({id.worker, id.step - 1});
    return causes;
  }

  void find_needs() {
    needs_.clear();
    acquires_.clear();
    std::map<int, int> block_of;
    for (int block = 0; block < static_cast<int>(blocks_.size()); ++block)
      for (const StepId id : blocks_[at(block)]) block_of[number(id)] = block;
    for (int block = 0; block < static_cast<int>(blocks_.size()); ++block)
      for (const StepId id : blocks_[at(block)])
        for (const StepId cause : causes_of(id)) {
          const int other = block_of[number(cause)];
          if (other == block) continue;
          std::vector<int>& steps = needs_[{other, block}].steps;
          if (!steps.empty() && position(cause) <= wiring_.position(steps.back())) continue;
          steps.push_back(number(cause));
          acquires_[number(id)].push_back({other, block});
        }
    int semaphore = 0;
    for (auto& [blocks, need] : needs_) need.semaphore = semaphore++;
  }

  /// As many steps as fit stay, the others go to a new block.
  Status split(int block) {
    constexpr int kForTheSemaphore = 2;
    std::vector<StepId>& steps = blocks_[at(block)];
    const std::vector<int> ends = write(block).ends;
    const auto stay = std::upper_bound(ends.begin(), ends.end(), kMostOperations - kForTheSemaphore) - ends.begin();
    if (stay == 0 || stay == static_cast<std::ptrdiff_t>(steps.size()))
      return beyond(fmt::format("{} alone takes more operations than the {} a thread block of MSCCL++ plans holds",
                                place(steps[stay == 0 ? 0 : steps.size() - 1]), kMostOperations));
    std::vector<StepId> rest(steps.begin() + stay, steps.end());
    steps.resize(static_cast<std::size_t>(stay));
    blocks_.push_back(std::move(rest));
    find_needs();
    return {};
  }

  /// The two blocks of which one waits for the other with the fewest operations become one; false where none fit.
  bool join_two() {
    std::vector<int> sizes;
    for (int block = 0; block < static_cast<int>(blocks_.size()); ++block)
      sizes.push_back(static_cast<int>(write(block).operations.size()));
    std::pair<int, int> best{-1, -1};
    int least = kMostOperations + 1;
    for (const auto& [blocks, need] : needs_) {
      const int size = sizes[at(blocks.first)] + sizes[at(blocks.second)];
      if (size >= least || wires_of(blocks.first, blocks.second) > kMostChannels) continue;
      best = blocks;
      least = size;
    }
    if (best.first < 0) return false;
    std::vector<StepId>& into = blocks_[at(best.first)];
    std::vector<StepId>& from = blocks_[at(best.second)];
    into.insert(into.end(), from.begin(), from.end());
    from.clear();
    std::sort(into.begin(), into.end(), [&](StepId a, StepId b) { return position(a) < position(b); });
    find_needs();
    return true;
  }

  int wires_of(int one, int other) const {
    std::set<int> wires;
    for (const int block : {one, other})
      for (const StepId id : blocks_[at(block)]) {
        const StepWires& ends = wiring_.of_step(number(id));
        if (ends.send != kNone) wires.insert(ends.send);
        if (ends.receive != kNone) wires.insert(ends.receive);
      }
    return static_cast<int>(wires.size());
  }

  tl::unexpected<Error> too_many_semaphores() const {
    std::string first;
    for (const std::vector<StepId>& block : blocks_)
      for (const StepId id : block)
        if (first.empty() && acquires_.contains(number(id))) first = place(id);
    return beyond(
        fmt::format("{} waits for another thread block, and so do others: {} semaphores; MSCCL++ plans hold {}, and no "
                    "two thread blocks are short enough to become one",
                    first, needs_.size(), kMostSemaphores));
  }

  Written write(int block) const {
    BlockWriter writer;
    for (const StepId id : blocks_[at(block)]) {
      const StepWires& ends = wiring_.of_step(number(id));
      if (ends.receive != kNone && ends.receive_index == 0) writer.signal("signal", ends.receive);
    }
    Written written;
    for (const StepId id : blocks_[at(block)]) {
      write_step(writer, id);
      written.ends.push_back(static_cast<int>(writer.operations().size()));
    }
    written.operations = std::move(writer.operations());
    return written;
  }

  void write_step(BlockWriter& writer, StepId id) const {
    if (const auto found = acquires_.find(number(id)); found != acquires_.end())
      for (const auto& blocks : found->second) writer.wait("sem_acquire", -1, {needs_.at(blocks).semaphore});
    const StepKind kind = step(id).kind;
    if (kind == StepKind::copy && !cells_.moves_onto_itself(rank_, step(id)))
      writer.move("copy", {step(id).sources[0]}, {step(id).targets[0]});
    if (kind == StepKind::reduce) write_reduce(writer, step(id));
    if (sends(kind) || receives(kind)) write_transfer(writer, step(id), wiring_.of_step(number(id)));
    for (const auto& [blocks, need] : needs_)
      if (std::find(need.steps.begin(), need.steps.end(), number(id)) != need.steps.end())
        writer.signal("sem_release", -1, {need.semaphore});
  }

  static void write_reduce(BlockWriter& writer, const Step& step) {
    writer.move("re", step.sources, {step.targets[0]});
    for (std::size_t i = 1; i < step.targets.size(); ++i) writer.move("copy", {step.targets[0]}, {step.targets[i]});
  }

  void write_transfer(BlockWriter& writer, const Step& step, const StepWires& ends) const {
    if (!receives(step.kind)) {
      put(writer, ends, step.sources[0]);
      return;
    }
    const Wire& wire = wiring_.wire(ends.receive);
    const int landing = wire.landing[at(ends.receive_index)];
    writer.wait("wait", ends.receive);
    Cells result = step.targets.empty() ? Cells{} : step.targets[0];
    if (landing != kNone) {
      const int chunks = step.targets.empty() ? step.sources[0].count : step.targets[0].count;
      const Cells landed = wire.landing_cells(ends.receive_index, chunks);
      if (step.targets.empty()) result = landed;
      if (reduces(step.kind) && step.local_first) writer.move("re", {step.sources[0], landed}, {result});
      if (reduces(step.kind) && !step.local_first) writer.move("re", {landed, step.sources[0]}, {result});
      if (!reduces(step.kind)) writer.move("copy", {landed}, {result});
    }
    if (sends(step.kind)) put(writer, ends, result);
    if (landing != kNone && landing + wire.cells < wire.landed) writer.signal("signal", ends.receive);
  }

  /// The first put waits until the receiver has begun, further ones into landing cells until these are free.
  void put(BlockWriter& writer, const StepWires& ends, const Cells& source) const {
    const Wire& wire = wiring_.wire(ends.send);
    const int landing = wire.landing[at(ends.send_index)];
    if (ends.send_index == 0) writer.wait("wait", ends.send);
    if (landing >= wire.cells) writer.wait("wait", ends.send);
    Cells target = landing == kNone ? wiring_.step(wire.receives[at(ends.send_index)]).targets[0]
                                    : wire.landing_cells(ends.send_index, source.count);
    target.rank = wire.connection.target;
    if (wire.connection.medium == Medium::port) {
      writer.move("pwsf", {source}, {target}, ends.send);
      return;
    }
    writer.move("put", {source}, {target}, ends.send);
    writer.signal("signal", ends.send);
  }

  const checking::ProgramParts& parts_;
  const checking::CellMap& cells_;
  const WireTable& wiring_;
  int rank_;
  std::vector<std::vector<StepId>> blocks_;                   // each in the order of positions
  std::map<std::pair<int, int>, Need> needs_;                 // by the block waited for and the one that waits
  std::map<int, std::vector<std::pair<int, int>>> acquires_;  // by step
};

}  // namespace

std::string_view name_of(Medium medium) { return medium == Medium::memory ? "memory" : "port"; }

Result<ExecutionPlan> make_plan(const Program& program, const MscclppOptions& options) {
  CheckOptions limits;
  limits.slots = 1 << 20;  // how far senders may be ahead is decided here: by step, not by chunk
  const CheckReport report = check(program, limits);
  if (!report.ok()) return fail(ErrorCode::invalid_argument, report.violation->to_string());
  const auto parts = checking::gather_parts(program, limits);
  if (!parts) return fail(ErrorCode::invalid_argument, parts.error().to_string());
  auto wiring = WireTable::of(*parts, options);
  if (!wiring) return tl::unexpected(wiring.error());
  using checking::Placement;
  const checking::CellMap cells(*parts, options.in_place ? Placement::in_place : Placement::out_of_place);
  ExecutionPlan plan;
  for (const Wire& wire : wiring->wires()) plan.connections.push_back(wire.connection);
  for (int rank = 0; rank < program.shape.ranks; ++rank) {
    auto rank_plan = RankPlanner(*parts, cells, *wiring, rank).plan();
    if (!rank_plan) return tl::unexpected(rank_plan.error());
    plan.ranks.push_back(std::move(*rank_plan));
  }
  return plan;
}

}  // namespace tutti::mscclpp
