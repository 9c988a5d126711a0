#include "program/check/check_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

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
        values_(parts.shape.ranks, static_cast<std::size_t>(std::min(cells_.size() + graph.chunks(), 1 << 16))),
        held_(static_cast<std::size_t>(cells_.size()), kNone),
        writer_(static_cast<std::size_t>(cells_.size()), kNone),
        sent_(static_cast<std::size_t>(graph.chunks()), kNone) {
    for (const int rank : parts.orbits.representatives())
      for (int chunk = 0; chunk < input_chunks(shape_, rank); ++chunk)
        held_[index(cells_.cell(rank, Buffer::input, chunk))] =
            values_.add_contribution(rank, extent_of(shape_, rank, Buffer::input, chunk));
  }

  /// on_combined(event, value, is_completed) -> Found, once for each chunk that a reducing step produces.
  template <typename OnCombined>
  Found run(const std::vector<int>& order, OnCombined on_combined) {
    for (const int event : order)
      if (touches_cells(*graph_.at(event).what))
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
    // The representatives' order of operands is not that of the ranks they are translated to.
    if (reduces(shape_.collective) && parts_.orbits.translations() > 1)
      outcome.rank_order = outcome.ordered_operands = false;
    return outcome;
  }

  const ValueTable& values() const { return values_; }
  /// Whether every step read what it would have read in place: no input was read after the output that it would be had
  /// got another value.
  bool is_same_in_place() const { return is_same_in_place_; }
  Violation violation(int event, std::string message) const {
    return broken(Violation::Rule::values, place_of(parts_, graph_.at(event)), std::move(message));
  }

 private:
  static std::size_t index(int cell) { return static_cast<std::size_t>(cell); }

  /// Chunks of a step do not touch each other's cells, so all are read before any is written.
  template <typename OnCombined>
  Found execute(int event, OnCombined on_combined) {
    const StepEvent& at = graph_.at(event);
    const Step& step = *at.what;
    if (cells_.moves_onto_itself(rank_of(event), step)) return std::nullopt;
    if (Found found = gather_operands(event, step)) return found;
    const std::size_t width = operands_of_chunk(step);
    results_.clear();
    for (std::size_t first = 0; first < operands_.size(); first += width) {
      const std::span<int> operands(operands_.data() + first, width);
      if (step.local_first) std::swap(operands[0], operands[1]);
      if (width > 1)
        if (Found found = check_operands(event, operands)) return found;
      results_.push_back(width > 1 ? values_.combine(operands) : operands[0]);
      if (!reduces(step.kind)) continue;
      const bool completed = width > 1 && values_.is_complete(results_.back());
      if (Found found = on_combined(event, results_.back(), completed)) return found;
    }
    if (sends(step.kind)) std::copy(results_.begin(), results_.end(), sent_.begin() + at.first_chunk);
    for (const Cells& target : step.targets)
      if (Found found = store(event, target)) return found;
    return std::nullopt;
  }

  static std::size_t operands_of_chunk(const Step& step) { return step.sources.size() + (receives(step.kind) ? 1 : 0); }

  /// What the step brings together, chunk by chunk; for each chunk from left to right.
  Found gather_operands(int event, const Step& step) {
    const std::size_t width = operands_of_chunk(step);
    const int chunks = step.sources.empty() ? step.targets[0].count : step.sources[0].count;
    operands_.resize(static_cast<std::size_t>(chunks) * width);
    std::size_t column = 0;
    if (receives(step.kind)) {
      const TranslatedEvent from = graph_.sender_of(event);
      const int* const sent = sent_.data() + graph_.at(from.event).first_chunk;
      for (int i = 0; i < chunks; ++i) operands_[index(i) * width] = translated(sent[i], from.translation);
      ++column;
    }
    for (const Cells& source : step.sources)
      if (Found found = load(event, source, column++, width)) return found;
    return std::nullopt;
  }

  /// Loads one operand of each chunk.
  Found load(int event, const Cells& cells, std::size_t column, std::size_t width) {
    const Located located = cells_.locate(rank_of(event), cells);
    const int translation = parts_.orbits.opposite(located.translation);
    for (int chunk = 0; chunk < cells.count; ++chunk) {
      const int held = held_[index(located.first + chunk)];
      if (held == kNone)
        return violation(event,
                         fmt::format("reads {}, which nothing has written", describe(cells, chunk, rank_of(event))));
      if (cells.buffer == Buffer::input) compare_in_place(located, chunk);
      const int value = translated(held, translation);
      const int extent = extent_of(shape_, located.owner, cells.buffer, cells.first + chunk);
      if (extent != kNone && extent != values_[value].extent)
        return violation(event, fmt::format("reads {} as {}, but it holds {}", describe(cells, chunk, rank_of(event)),
                                            describe_extent(shape_, extent), describe_value(value)));
      operands_[index(chunk) * width + column] = value;
    }
    return std::nullopt;
  }

  void compare_in_place(const Located& located, int chunk) {
    const int output = cells_.output_in_place(located.owner, located.first + chunk);
    if (output == kNone || held_[index(output)] == kNone) return;
    if (held_[index(output)] != held_[index(located.first + chunk)]) is_same_in_place_ = false;
  }

  int translated(int value, int translation) {
    return translation == 0 ? value : values_.add_translated(value, parts_.orbits, translation);
  }

  Found check_operands(int event, std::span<const int> operands) {
    if (!combines(shape_.collective))
      return violation(event, fmt::format("a {} in {}, where nothing is reduced", name_of(graph_.at(event).what->kind),
                                          name_of(shape_.collective)));
    for (const int operand : operands)
      if (values_[operand].extent != values_[operands[0]].extent)
        return violation(event,
                         fmt::format("reduces {} with {}", describe_value(operands[0]), describe_value(operand)));
    if (const int twice = rank_counted_twice(operands); twice != kNone && shape_.collective != Collective::barrier)
      return violation(event, fmt::format("counts rank {}'s contribution to {} twice", twice,
                                          describe_extent(shape_, values_[operands[0]].extent)));
    return std::nullopt;
  }

  /// A rank that contributes to more than one operand.
  int rank_counted_twice(std::span<const int> operands) {
    if (operands.size() == 2) return values_.common_rank(operands[0], operands[1]);
    // Among many operands most hold one contribution: mark ranks instead of comparing all pairs.
    seen_.assign(static_cast<std::size_t>(shape_.ranks), false);
    for (const int operand : operands)
      for (int rank = values_[operand].lowest; rank <= values_[operand].highest; ++rank) {
        if (!values_.contains(operand, rank)) continue;
        if (seen_[index(rank)]) return rank;
        seen_[index(rank)] = true;
      }
    return kNone;
  }

  /// Stores the results of all chunks.
  Found store(int event, const Cells& cells) {
    const int rank = rank_of(event);
    const Located located = cells_.locate(rank, cells);
    const int owner = located.owner;
    for (int chunk = 0; chunk < cells.count; ++chunk) {
      const int cell = located.first + chunk;
      const int value = results_[index(chunk)];
      const int extent = extent_of(shape_, owner, cells.buffer, cells.first + chunk);
      if (cells.buffer == Buffer::input && !cells_.is_output(owner, cell))
        return violation(event, fmt::format("writes {} input: {} is no output",
                                            owner == rank ? "its" : "another rank's", describe(cells, chunk, rank)));
      if (extent != kNone && extent != values_[value].extent)
        return violation(event, fmt::format("stores {} in {}, the place of {}", describe_value(value),
                                            describe(cells, chunk, rank), describe_extent(shape_, extent)));
      held_[index(cell)] = translated(value, located.translation);
      writer_[index(cell)] = event;
    }
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

  int rank_of(int event) const { return parts_.rank_of(graph_.at(event).worker); }

  const Shape shape_;
  const ProgramParts& parts_;
  const EventGraph& graph_;
  const CellMap cells_;
  ValueTable values_;
  std::vector<int> held_;    // per cell, its value
  std::vector<int> writer_;  // per cell, the event that last wrote it
  std::vector<int> sent_;    // per chunk of an event, the value it sends
  bool is_same_in_place_ = true;
  // Of the event at hand:
  std::vector<int> operands_;  // of its first chunk, of the next, and so on
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
  Checked<ReductionFacts> outcome = run.outcome();
  if (outcome) outcome->is_same_in_place = run.is_same_in_place();
  return outcome;
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
