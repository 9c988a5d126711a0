#include "program/check/check_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "program/check/check_value.hpp"

namespace tutti::checking {
namespace {

using Found = std::optional<Violation>;

/// The rank whose input a chunk of an output must hold, where nothing is reduced.
int origin_of(const Shape& shape, int chunk) {
  switch (shape.collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return shape.root;
    case Collective::point_to_point:
      return 0;
    default:
      return chunk / shape.chunks;  // all_gather, gather, all_to_all
  }
}

/// Executes events on symbolic values. What follows from a step's combining a value is left to `on_combined`.
class SymbolicRun {
 public:
  SymbolicRun(const ProgramParts& parts, const EventGraph& graph, Placement placement)
      : shape_(parts.shape),
        parts_(parts),
        graph_(graph),
        cells_(parts, placement),
        values_(parts.shape.ranks),
        held_(static_cast<std::size_t>(cells_.size()), kNone),
        writer_(static_cast<std::size_t>(cells_.size()), kNone),
        sent_(graph.events.size(), kNone) {
    for (const int rank : parts.orbits.representatives())
      for (int chunk = 0; chunk < input_chunks(shape_, rank); ++chunk)
        held_[index(cells_.cell(rank, Buffer::input, chunk))] =
            values_.add_contribution(rank, extent_of(shape_, rank, Buffer::input, chunk));
  }

  /// on_combined(event, value, is_completed) -> Found, once for each chunk that a reducing step produces.
  template <typename OnCombined>
  Found run(const std::vector<int>& order, OnCombined on_combined) {
    for (const int event : order)
      if (Found found = execute(event, on_combined)) return found;
    return std::nullopt;
  }

  Checked<ReductionFacts> outcome() const {
    ReductionFacts outcome;
    for (const int rank : parts_.orbits.representatives())
      for (int chunk = 0; chunk < output_chunks(shape_, rank); ++chunk) {
        if (Found found = check_output(rank, chunk)) return tl::unexpected(*std::move(found));
        const Value& value = values_[held_[index(cells_.cell(rank, Buffer::output, chunk))]];
        if (!reduces(shape_.collective)) continue;
        outcome.roundings = std::max(outcome.roundings, value.roundings);
        outcome.rank_order = outcome.rank_order && value.is_chain;
        outcome.ordered_operands = outcome.ordered_operands && value.is_ordered;
      }
    // The representatives' order of operands is not that of the ranks they are moved to.
    if (reduces(shape_.collective) && parts_.orbits.moves() > 1) outcome.rank_order = outcome.ordered_operands = false;
    return outcome;
  }

  const ValueTable& values() const { return values_; }
  Violation violation(int event, std::string message) const {
    return broken(Violation::Rule::values, place_of(parts_, graph_.at(event)), std::move(message));
  }

 private:
  static std::size_t index(int cell) { return static_cast<std::size_t>(cell); }

  template <typename OnCombined>
  Found execute(int event, OnCombined on_combined) {
    const Step& step = step_of(parts_, graph_.at(event));
    if (step.sources.empty() && step.targets.empty()) return std::nullopt;
    if (cells_.moves_onto_itself(rank_of(event), step)) return std::nullopt;
    const int chunks = is_chunkwise(step.kind) ? 1 : step.targets[0].count;
    results_.clear();
    for (int i = 0; i < chunks; ++i) {
      if (Found found = gather_operands(event, step, i)) return found;
      if (Found found = check_operands(event, step)) return found;
      const bool combines_several = operands_.size() > 1;
      results_.push_back(combines_several ? values_.combine(operands_) : operands_[0]);
      if (!reduces(step.kind)) continue;
      const bool completed = combines_several && values_.is_complete(results_.back());
      if (Found found = on_combined(event, results_.back(), completed)) return found;
    }
    if (sends(step.kind)) sent_[index(event)] = results_[0];
    for (const Cells& target : step.targets)
      for (int i = 0; i < chunks; ++i)
        if (Found found = store(event, target, offset(event, step, i), results_[index(i)])) return found;
    return std::nullopt;
  }

  /// What the step brings together for its i-th chunk, from left to right.
  Found gather_operands(int event, const Step& step, int i) {
    operands_.clear();
    if (receives(step.kind))
      operands_.push_back(translated(sent_[index(graph_.message_from[index(event)])], graph_.from_move[index(event)]));
    for (const Cells& source : step.sources)
      if (Found found = load(event, source, offset(event, step, i))) return found;
    if (step.local_first) std::swap(operands_[0], operands_[1]);
    return std::nullopt;
  }

  Found load(int event, const Cells& cells, int chunk) {
    const int rank = rank_of(event);
    const Located located = cells_.locate(rank, cells);
    const int held = held_[index(located.first + chunk)];
    if (held == kNone)
      return violation(event, fmt::format("reads {}, which nothing has written", describe(cells, chunk, rank)));
    const int value = translated(held, parts_.orbits.opposite(located.move));
    const int extent = extent_of(shape_, located.owner, cells.buffer, cells.first + chunk);
    if (extent != kNone && extent != values_[value].extent)
      return violation(event, fmt::format("reads {} as {}, but it holds {}", describe(cells, chunk, rank),
                                          describe_extent(shape_, extent), describe_value(value)));
    operands_.push_back(value);
    return std::nullopt;
  }

  int translated(int value, int move) { return move == 0 ? value : values_.add_moved(value, parts_.orbits, move); }

  Found check_operands(int event, const Step& step) {
    if (operands_.size() > 1 && !combines(shape_.collective))
      return violation(
          event, fmt::format("a {} in {}, where nothing is reduced", name_of(step.kind), name_of(shape_.collective)));
    for (const int operand : operands_)
      if (values_[operand].extent != values_[operands_[0]].extent)
        return violation(event,
                         fmt::format("reduces {} with {}", describe_value(operands_[0]), describe_value(operand)));
    if (const int twice = rank_counted_twice(); twice != kNone && shape_.collective != Collective::barrier)
      return violation(event, fmt::format("counts rank {}'s contribution to {} twice", twice,
                                          describe_extent(shape_, values_[operands_[0]].extent)));
    return std::nullopt;
  }

  /// A rank that contributes to more than one operand.
  int rank_counted_twice() {
    if (operands_.size() < 2) return kNone;
    if (operands_.size() == 2) return values_.common_rank(operands_[0], operands_[1]);
    // Among many operands most hold one contribution: mark ranks instead of comparing all pairs.
    seen_.assign(static_cast<std::size_t>(shape_.ranks), false);
    for (const int operand : operands_)
      for (int rank = values_[operand].lowest; rank <= values_[operand].highest; ++rank) {
        if (!values_.contains(operand, rank)) continue;
        if (seen_[index(rank)]) return rank;
        seen_[index(rank)] = true;
      }
    return kNone;
  }

  Found store(int event, const Cells& cells, int chunk, int value) {
    const int rank = rank_of(event);
    const Located located = cells_.locate(rank, cells);
    const int owner = located.owner;
    const int cell = located.first + chunk;
    const int extent = extent_of(shape_, owner, cells.buffer, cells.first + chunk);
    if (cells.buffer == Buffer::input && !cells_.is_output(owner, cell))
      return violation(event, fmt::format("writes {} input: {} is no output", owner == rank ? "its" : "another rank's",
                                          describe(cells, chunk, rank)));
    if (extent != kNone && extent != values_[value].extent)
      return violation(event, fmt::format("stores {} in {}, the place of {}", describe_value(value),
                                          describe(cells, chunk, rank), describe_extent(shape_, extent)));
    held_[index(cell)] = translated(value, located.move);
    writer_[index(cell)] = event;
    return std::nullopt;
  }

  Found check_output(int rank, int chunk) const {
    const int cell = cells_.cell(rank, Buffer::output, chunk);
    const int value = held_[index(cell)];
    const int extent = extent_of(shape_, rank, Buffer::output, chunk);
    StepPosition place{rank, -1, -1};
    if (value == kNone)
      return broken(
          Violation::Rule::result, place,
          fmt::format("output {} is never written; {} belongs there", chunk, describe_extent(shape_, extent)));
    const bool right =
        combines(shape_.collective) ? values_.is_complete(value) : values_[value].lowest == origin_of(shape_, chunk);
    if (right && values_[value].extent == extent) return std::nullopt;
    if (writer_[index(cell)] != kNone) place = place_of(parts_, graph_.at(writer_[index(cell)]));
    if (combines(shape_.collective))
      return broken(Violation::Rule::result, place,
                    fmt::format("rank {}'s output {} ends with {} without the contributions of ranks {}", rank, chunk,
                                describe_value(value), values_.list_missing(value)));
    return broken(Violation::Rule::result, place,
                  fmt::format("rank {}'s output {} ends with {} instead of {} from rank {}", rank, chunk,
                              describe_value(value), describe_extent(shape_, extent), origin_of(shape_, chunk)));
  }

  std::string describe_value(int value) const {
    const std::string extent = describe_extent(shape_, values_[value].extent);
    if (values_[value].ranks == 1) return fmt::format("{} of rank {}", extent, values_[value].lowest);
    return fmt::format("{} of ranks {}", extent, values_.list_members(value));
  }

  int offset(int event, const Step& step, int i) const { return is_chunkwise(step.kind) ? graph_.at(event).chunk : i; }
  int rank_of(int event) const { return parts_.rank_of(graph_.at(event).worker); }

  const Shape shape_;
  const ProgramParts& parts_;
  const EventGraph& graph_;
  const CellMap cells_;
  ValueTable values_;
  std::vector<int> held_;    // per cell, its value
  std::vector<int> writer_;  // per cell, the event that last wrote it
  std::vector<int> sent_;    // per event, the value it sends
  // Of the event at hand:
  std::vector<int> operands_;
  std::vector<int> results_;
  std::vector<bool> seen_;
};

Found check_unmarked(const ProgramParts& parts) {
  for (std::size_t worker = 0; worker < parts.workers.size(); ++worker) {
    const std::vector<Step>& steps = parts.worker(static_cast<int>(worker)).steps;
    for (std::size_t step = 0; step < steps.size(); ++step)
      if (steps[step].completes && !reduces(steps[step].kind))
        return broken(Violation::Rule::values,
                      {parts.workers[worker].rank, parts.workers[worker].worker, static_cast<int>(step)},
                      fmt::format("is marked as completing, but a {} reduces nothing", name_of(steps[step].kind)));
  }
  return std::nullopt;
}

}  // namespace

Checked<ReductionFacts> check_values_and_result(const ProgramParts& parts, const EventGraph& graph,
                                                const std::vector<int>& order, Placement placement) {
  const bool marks_matter = parts.shape.collective != Collective::barrier;
  if (marks_matter)
    if (Found found = check_unmarked(parts)) return tl::unexpected(*std::move(found));
  SymbolicRun run(parts, graph, placement);
  const auto compare_mark = [&](int event, int value, bool completed) -> Found {
    const bool marked = step_of(parts, graph.at(event)).completes;
    if (!marks_matter || marked == completed) return std::nullopt;
    if (completed) return run.violation(event, "completes its reduction, but is not marked as completing");
    if (run.values().is_complete(value))
      return run.violation(event, "is marked as completing, but copies what was complete before");
    return run.violation(event, fmt::format("is marked as completing, but the contributions of ranks {} are missing",
                                            run.values().list_missing(value)));
  };
  if (Found found = run.run(order, compare_mark)) return tl::unexpected(*std::move(found));
  return run.outcome();
}

Checked<std::vector<std::vector<bool>>> find_completing_steps(const ProgramParts& parts, const EventGraph& graph,
                                                              const std::vector<int>& order, Placement placement) {
  std::vector<std::vector<bool>> completing(parts.workers.size());
  for (std::size_t worker = 0; worker < completing.size(); ++worker)
    completing[worker].resize(parts.worker(static_cast<int>(worker)).steps.size(), false);
  std::vector<std::vector<bool>> seen = completing;
  SymbolicRun run(parts, graph, placement);
  const auto record = [&](int event, int, bool completed) -> Found {
    if (parts.shape.collective == Collective::barrier) return std::nullopt;
    const auto worker = static_cast<std::size_t>(graph.at(event).worker);
    const auto step = static_cast<std::size_t>(graph.at(event).step);
    if (seen[worker][step] && completing[worker][step] != completed)
      return run.violation(event, "completes some of its chunks and not others, so that it cannot be marked");
    seen[worker][step] = true;
    completing[worker][step] = completed;
    return std::nullopt;
  };
  if (Found found = run.run(order, record)) return tl::unexpected(*std::move(found));
  return completing;
}

}  // namespace tutti::checking
