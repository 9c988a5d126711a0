#include "program/check/check_races.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "program/check/check_clock.hpp"

namespace tutti::checking {
namespace {

using Found = std::optional<Violation>;

/// Follows events in order and says of any earlier event whether it surely happened before the current one.
class HappensBefore {
 public:
  HappensBefore(const ProgramParts& parts, const EventGraph& graph)
      : graph_(graph),
        known_(parts.workers.size()),
        sent_(graph.events.size()),
        at_end_(static_cast<std::size_t>(parts.shape.ranks), VectorClock(parts.workers.size())),
        parts_(parts) {}

  void enter(int event) {
    const auto at = static_cast<std::size_t>(event);
    if (graph_.message_from[at] != kNone) hear(event, graph_.message_from[at]);
    for (const int other : graph_.waits_for.of(event)) hear(event, other);
    const auto dependents = static_cast<int>(graph_.awaited_by.of(event).size());
    const int listeners = dependents + (graph_.message_to[at] != kNone ? 1 : 0);
    if (listeners > 0) sent_[at] = {known(event), listeners};
    if (is_last_of_worker(event)) end_worker(event);
  }

  /// `earlier` happened before `event`, the one entered last.
  bool is_before(int earlier, int event) const {
    const int worker = graph_.at(earlier).worker;
    if (worker == graph_.at(event).worker) return earlier <= event;
    const auto& clock = known_[static_cast<std::size_t>(graph_.at(event).worker)];
    return clock && clock->last(worker) >= earlier;
  }

  /// After all events: `event` happened before the last step of `rank`.
  bool is_before_end(int event, int rank) const {
    return at_end_[static_cast<std::size_t>(rank)].last(graph_.at(event).worker) >= event;
  }

 private:
  using SharedClock = std::shared_ptr<VectorClock>;
  struct Sent {
    SharedClock clock;
    int listeners = 0;  // that have not heard it yet
  };

  SharedClock& known(int event) { return known_[static_cast<std::size_t>(graph_.at(event).worker)]; }

  void hear(int event, int from) {
    Sent& sent = sent_[static_cast<std::size_t>(from)];
    const SharedClock heard = --sent.listeners > 0 ? sent.clock : std::move(sent.clock);
    // Who knows an event knows all that came before it.
    if (is_before(from, event)) return;
    SharedClock& mine = known(event);
    // Clocks handed out with earlier messages must not change any more.
    if (!mine) mine = std::make_shared<VectorClock>(known_.size());
    if (mine.use_count() > 1) mine = std::make_shared<VectorClock>(*mine);
    if (heard) mine->learn(*heard);
    mine->learn(graph_.at(from).worker, from);
  }

  bool is_last_of_worker(int event) const {
    return graph_.first_event[static_cast<std::size_t>(graph_.at(event).worker) + 1] == event + 1;
  }

  void end_worker(int event) {
    const int worker = graph_.at(event).worker;
    VectorClock& end = at_end_[static_cast<std::size_t>(parts_.rank_of(worker))];
    if (const SharedClock& clock = known(event)) end.learn(*clock);
    end.learn(worker, event);
  }

  const EventGraph& graph_;
  std::vector<SharedClock> known_;   // per worker; empty while it has heard of nobody
  std::vector<Sent> sent_;           // per event that others wait for: what they hear
  std::vector<VectorClock> at_end_;  // per rank
  const ProgramParts& parts_;
};

class Races {
 public:
  Races(const ProgramParts& parts, const EventGraph& graph, Placement placement)
      : parts_(parts),
        graph_(graph),
        cells_(parts, placement),
        before_(parts, graph),
        history_(static_cast<std::size_t>(cells_.size())) {}

  Found check(const std::vector<int>& order) {
    for (const int event : order) {
      before_.enter(event);
      if (Found found = check_event(event)) return found;
    }
    return check_ends();
  }

 private:
  struct Read {
    int event;
    int released;  // the event after which other ranks may write
  };
  struct CellHistory {
    int write = kNone;
    std::vector<Read> reads;  // since the write
  };
  enum class Touch : std::uint8_t { reads, reads_scratch, writes };
  struct RemoteAccess {
    int event;
    const Cells* cells;
  };

  Found check_event(int event) {
    const Step& step = step_of(parts_, graph_.at(event));
    if (Found found = check_overlap(event, step)) return found;
    if (cells_.moves_onto_itself(rank_of(event), step)) return std::nullopt;
    const bool sends_targets = sends(step.kind) && !step.targets.empty();
    const bool sends_sources = step.kind == StepKind::send;
    for (const Cells& cells : step.sources)
      if (Found found = read(event, step, cells, sends_sources)) return found;
    for (const Cells& cells : step.targets) {
      if (Found found = write(event, step, cells)) return found;
      // What is forwarded is read from where it was stored.
      if (sends_targets)
        if (Found found = read(event, step, cells, true)) return found;
    }
    return std::nullopt;
  }

  /// Within a step no chunk may be written that another chunk of the step reads or writes.
  Found check_overlap(int event, const Step& step) const {
    for (const Cells& target : step.targets) {
      if (target.count == 1) return std::nullopt;
      for (const auto* side : {&step.sources, &step.targets})
        for (const Cells& other : *side) {
          const int distance = first_cell(event, target) - first_cell(event, other);
          if (distance != 0 && std::abs(distance) < target.count)
            return violation(event, fmt::format("writes {} chunks from {} on, which overlap those from {} on",
                                                target.count, name(event, target, 0), name(event, other, 0)));
        }
    }
    return std::nullopt;
  }

  Found read(int event, const Step& step, const Cells& cells, bool is_sent) {
    const Located located = locate(event, step, cells);
    note_remote(event, located, cells.buffer == Buffer::scratch ? Touch::reads_scratch : Touch::reads, cells);
    for (int i = 0; i < located.count; ++i) {
      CellHistory& history = history_of(located.first + i);
      if (history.write != kNone && !before_.is_before(history.write, event))
        return conflict(event, "reads", cells, chunk_offset(event, step, i), history.write, "write");
      history.reads.push_back({event, is_sent ? graph_.message_to[static_cast<std::size_t>(event)] : event});
    }
    return std::nullopt;
  }

  Found write(int event, const Step& step, const Cells& cells) {
    const Located located = locate(event, step, cells);
    note_remote(event, located, Touch::writes, cells);
    for (int i = 0; i < located.count; ++i) {
      CellHistory& history = history_of(located.first + i);
      if (history.write != kNone && !before_.is_before(history.write, event))
        return conflict(event, "writes", cells, chunk_offset(event, step, i), history.write, "write");
      for (const Read& earlier : history.reads)
        if (!is_read_over(earlier, event))
          return conflict(event, "writes", cells, chunk_offset(event, step, i), earlier.event, "read");
      history.write = event;
      history.reads.clear();
    }
    return std::nullopt;
  }

  bool is_read_over(const Read& read, int event) const {
    const bool same_rank = rank_of(read.event) == rank_of(event);
    return before_.is_before(same_rank ? read.event : read.released, event);
  }

  void note_remote(int event, const Located& located, Touch touch, const Cells& cells) {
    if (located.owner != rank_of(event)) remote_[{located.owner, graph_.at(event).worker, touch}] = {event, &cells};
  }

  /// Nobody may touch a rank's buffers after it has returned. Its scratch may be read, where every rank hears of every
  /// other: the program after the next one, which writes it again, then begins after all have ended this one.
  Found check_ends() const {
    const bool all_hear = do_all_hear();
    for (const auto& [key, access] : remote_) {
      const auto& [owner, worker, touch] = key;
      if (before_.is_before_end(access.event, owner) || (touch == Touch::reads_scratch && all_hear)) continue;
      return violation(access.event, fmt::format("{} {}, but rank {} may return before: no step of it comes after this",
                                                 touch == Touch::writes ? "writes" : "reads",
                                                 name(access.event, *access.cells, 0), owner));
    }
    return std::nullopt;
  }

  bool do_all_hear() const {
    for (int rank = 0; rank < parts_.shape.ranks; ++rank)
      if (!hears_all(parts_.ranks[static_cast<std::size_t>(rank)], rank, parts_.shape.ranks)) return false;
    return true;
  }

  Found conflict(int event, std::string_view verb, const Cells& cells, int offset, int other,
                 std::string_view other_verb) const {
    return violation(event, fmt::format("{} {} while {} may still {} it", verb, name(event, cells, offset),
                                        describe(place_of(parts_, graph_.at(other))), other_verb));
  }

  Violation violation(int event, std::string message) const {
    return broken(Violation::Rule::races, place_of(parts_, graph_.at(event)), std::move(message));
  }
  std::string name(int event, const Cells& cells, int offset) const { return describe(cells, offset, rank_of(event)); }
  int chunk_offset(int event, const Step& step, int i) const {
    return is_chunkwise(step.kind) ? graph_.at(event).chunk : i;
  }
  int rank_of(int event) const { return parts_.rank_of(graph_.at(event).worker); }
  int first_cell(int event, const Cells& cells) const { return cells_.first_cell(rank_of(event), cells); }
  Located locate(int event, const Step& step, const Cells& cells) const {
    return cells_.locate(rank_of(event), cells, step, graph_.at(event));
  }
  CellHistory& history_of(int cell) { return history_[static_cast<std::size_t>(cell)]; }

  const ProgramParts& parts_;
  const EventGraph& graph_;
  const CellMap cells_;
  HappensBefore before_;
  std::vector<CellHistory> history_;
  std::map<std::tuple<int, int, Touch>, RemoteAccess> remote_;  // by (owner, worker that touches, how): the last
};

}  // namespace

std::optional<Violation> check_races(const ProgramParts& parts, const EventGraph& graph, const std::vector<int>& order,
                                     Placement placement) {
  return Races(parts, graph, placement).check(order);
}

}  // namespace tutti::checking
