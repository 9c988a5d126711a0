#include "program/check/check_races.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "program/check/check_clock.hpp"

namespace tutti::checking {
namespace {

using Found = std::optional<Violation>;

/// An event as it happens on the ranks that a move takes its representative to.
struct TranslatedEvent {
  int event;
  int move;
};

/// Follows events in order and says of any earlier event whether it surely happened before the current one.
class HappensBefore {
 public:
  HappensBefore(const ProgramParts& parts, const EventGraph& graph)
      : graph_(graph),
        parts_(parts),
        workers_(static_cast<int>(parts.workers.size())),
        all_workers_(parts.workers.size() * static_cast<std::size_t>(parts.orbits.moves())),
        known_(parts.workers.size()),
        heard_last_(parts.workers.size()),
        sent_(graph.events.size()),
        at_end_(parts.orbits.representatives().size(), VectorClock(all_workers_)) {}

  void enter(int event) {
    const auto at = static_cast<std::size_t>(event);
    if (graph_.message_from[at] != kNone) hear(event, {graph_.message_from[at], graph_.from_move[at]});
    for (const int other : graph_.waits_for.of(event)) hear(event, {other, 0});
    const auto dependents = static_cast<int>(graph_.awaited_by.of(event).size());
    const int listeners = dependents + (graph_.message_to[at] != kNone ? 1 : 0);
    if (listeners > 0) sent_[at] = {known(event), listeners};
    if (is_last_of_worker(event)) end_worker(event);
  }

  /// `earlier` happened before `event`, the one entered last.
  bool is_before(TranslatedEvent earlier, int event) const {
    const int worker = graph_.at(earlier.event).worker;
    if (earlier.move == 0 && worker == graph_.at(event).worker) return earlier.event <= event;
    const auto& clock = known_[static_cast<std::size_t>(graph_.at(event).worker)];
    return clock && clock->last(number_of(worker, earlier.move)) >= earlier.event;
  }

  /// After all events: `access` happened before the last step of `representative`.
  bool is_before_end(TranslatedEvent access, int representative) const {
    const int worker = number_of(graph_.at(access.event).worker, access.move);
    return at_end_[static_cast<std::size_t>(parts_.orbits.representative_index(representative))].last(worker) >=
           access.event;
  }

 private:
  using SharedClock = std::shared_ptr<VectorClock>;
  struct Sent {
    SharedClock clock;
    int listeners = 0;  // that have not heard it yet
  };

  SharedClock& known(int event) { return known_[static_cast<std::size_t>(graph_.at(event).worker)]; }
  int number_of(int worker, int move) const { return move * workers_ + worker; }

  void hear(int event, TranslatedEvent from) {
    Sent& sent = sent_[static_cast<std::size_t>(from.event)];
    SharedClock heard = --sent.listeners > 0 ? sent.clock : std::move(sent.clock);
    // Who knows an event knows all that came before it.
    if (is_before(from, event)) return;
    SharedClock& mine = known(event);
    // Clocks handed out with earlier messages must not change any more.
    if (!mine) mine = std::make_shared<VectorClock>(all_workers_);
    if (mine.use_count() > 1) mine = std::make_shared<VectorClock>(*mine);
    // The chunks of a step bring the same clock over and over.
    auto& [last, last_move] = heard_last_[static_cast<std::size_t>(graph_.at(event).worker)];
    if (heard && (heard != last || from.move != last_move)) {
      if (from.move == 0)
        mine->learn(*heard);
      else
        mine->learn(*heard, parts_.orbits.row(from.move), workers_);
      last = std::move(heard);
      last_move = from.move;
    }
    mine->learn(number_of(graph_.at(from.event).worker, from.move), from.event);
  }

  bool is_last_of_worker(int event) const {
    return graph_.first_event[static_cast<std::size_t>(graph_.at(event).worker) + 1] == event + 1;
  }

  void end_worker(int event) {
    const int worker = graph_.at(event).worker;
    VectorClock& end = at_end_[static_cast<std::size_t>(parts_.orbits.representative_index(parts_.rank_of(worker)))];
    if (const SharedClock& clock = known(event)) end.learn(*clock);
    end.learn(worker, event);
    heard_last_[static_cast<std::size_t>(worker)] = {};
  }

  const EventGraph& graph_;
  const ProgramParts& parts_;
  const int workers_;               // of the representatives
  const std::size_t all_workers_;   // of all ranks
  std::vector<SharedClock> known_;  // per worker; empty while it has heard of nobody
  std::vector<std::pair<SharedClock, int>>
      heard_last_;                   // per worker, and how it was moved; kept so that it stays as it is
  std::vector<Sent> sent_;           // per event that others wait for: what they hear
  std::vector<VectorClock> at_end_;  // per representative
};

/// The accesses to memory in one placement.
class Races {
 public:
  Races(const ProgramParts& parts, const EventGraph& graph, const HappensBefore& before, Placement placement)
      : parts_(parts),
        graph_(graph),
        cells_(parts, placement),
        before_(before),
        history_(static_cast<std::size_t>(cells_.size())) {}

  /// Of the event that `before` has entered last. Keeps the first violation.
  void check(int event) {
    if (!found_) found_ = check_event(event);
  }

  Found finish() {
    if (!found_) found_ = check_ends();
    return std::move(found_);
  }

 private:
  struct Read {
    TranslatedEvent by;
    TranslatedEvent released;  // after which other ranks may write
    int next;                  // of the same cell, earlier; an index into reads_
  };
  struct CellHistory {
    TranslatedEvent write{kNone, 0};
    int reads = kNone;  // since the write, the last one
  };
  enum class Touch : std::uint8_t { reads, reads_scratch, writes };
  struct RemoteAccess {
    int owner;
    TranslatedEvent by;  // seen from the owner's representative
    Touch touch;
    const Cells* cells;
  };

  Found check_event(int event) {
    const Step& step = *graph_.at(event).what;
    if (Found found = check_overlap(event, step)) return found;
    if (cells_.moves_onto_itself(rank_of(event), step)) return std::nullopt;
    const bool sends_targets = sends(step.kind) && !step.targets.empty();
    const bool sends_sources = step.kind == StepKind::send;
    for (const Cells& cells : step.sources)
      if (Found found = read(event, cells, sends_sources)) return found;
    for (const Cells& cells : step.targets) {
      if (Found found = write(event, cells)) return found;
      // What is forwarded is read from where it was stored.
      if (sends_targets)
        if (Found found = read(event, cells, true)) return found;
    }
    return std::nullopt;
  }

  /// Within a step no chunk may be written that another chunk of the step reads or writes.
  Found check_overlap(int event, const Step& step) const {
    if (graph_.at(event).chunk > 0) return std::nullopt;
    for (const Cells& target : step.targets) {
      if (target.count == 1) return std::nullopt;
      const Located written = cells_.locate(rank_of(event), target);
      for (const auto* side : {&step.sources, &step.targets})
        for (const Cells& other : *side) {
          const Located touched = cells_.locate(rank_of(event), other);
          const int distance = written.first - touched.first;
          if (written.owner == touched.owner && distance != 0 && std::abs(distance) < target.count)
            return violation(event, fmt::format("writes {} chunks from {} on, which overlap those from {} on",
                                                target.count, name(event, target, 0), name(event, other, 0)));
        }
    }
    return std::nullopt;
  }

  Found read(int event, const Cells& cells, bool is_sent) {
    const Located located = cells_.locate(rank_of(event), cells, graph_.at(event));
    const TranslatedEvent now{event, located.move};
    note_remote(now, located, cells.buffer == Buffer::scratch ? Touch::reads_scratch : Touch::reads, cells);
    const auto at = static_cast<std::size_t>(event);
    const TranslatedEvent released =
        is_sent ? TranslatedEvent{graph_.message_to[at], parts_.orbits.both(graph_.to_move[at], located.move)} : now;
    for (int i = 0; i < located.count; ++i) {
      CellHistory& history = history_of(located.first + i);
      if (history.write.event != kNone && !is_before(history.write, now))
        return conflict(event, "reads", cells, chunk_offset(event, i), history.write, now, "write");
      reads_.push_back({now, released, history.reads});
      history.reads = static_cast<int>(reads_.size()) - 1;
    }
    return std::nullopt;
  }

  Found write(int event, const Cells& cells) {
    const Located located = cells_.locate(rank_of(event), cells, graph_.at(event));
    const TranslatedEvent now{event, located.move};
    note_remote(now, located, Touch::writes, cells);
    for (int i = 0; i < located.count; ++i) {
      CellHistory& history = history_of(located.first + i);
      if (history.write.event != kNone && !is_before(history.write, now))
        return conflict(event, "writes", cells, chunk_offset(event, i), history.write, now, "write");
      const Read* earliest = nullptr;  // of those that are not over
      for (int next = history.reads; next != kNone; next = reads_[static_cast<std::size_t>(next)].next)
        if (const Read& earlier = reads_[static_cast<std::size_t>(next)]; !is_read_over(earlier, now))
          earliest = &earlier;
      if (earliest != nullptr)
        return conflict(event, "writes", cells, chunk_offset(event, i), earliest->by, now, "read");
      history = {now, kNone};
    }
    return std::nullopt;
  }

  /// Of what two events do to the same cell of a representative.
  bool is_before(TranslatedEvent earlier, TranslatedEvent now) const {
    return before_.is_before(seen_from(earlier, now), now.event);
  }
  TranslatedEvent seen_from(TranslatedEvent other, TranslatedEvent now) const {
    return {other.event, parts_.orbits.both(other.move, parts_.orbits.opposite(now.move))};
  }

  bool is_read_over(const Read& read, TranslatedEvent now) const {
    const bool same_rank = rank_of(read.by.event) == rank_of(now.event) && read.by.move == now.move;
    return is_before(same_rank ? read.by : read.released, now);
  }

  void note_remote(TranslatedEvent now, const Located& located, Touch touch, const Cells& cells) {
    if (located.owner != rank_of(now.event)) remote_.push_back({located.owner, now, touch, &cells});
  }

  /// Nobody may touch a rank's buffers after it has returned. Its scratch may be read, where every rank hears of every
  /// other: the program after the next one, which writes it again, then begins after all have ended this one.
  Found check_ends() const {
    const bool all_hear = !remote_.empty() && do_all_hear();
    // Of all that come too late, the last one by the first worker that touches the first rank is reported.
    using Key = std::tuple<int, int, Touch>;
    std::map<Key, const RemoteAccess*> late;
    for (const RemoteAccess& access : remote_) {
      if (before_.is_before_end(access.by, access.owner) || (access.touch == Touch::reads_scratch && all_hear))
        continue;
      late[{access.owner, graph_.at(access.by.event).worker, access.touch}] = &access;
    }
    if (late.empty()) return std::nullopt;
    const RemoteAccess& access = *late.begin()->second;
    return violation(access.by.event,
                     fmt::format("{} {}, but rank {} may return before: no step of it comes after this",
                                 access.touch == Touch::writes ? "writes" : "reads",
                                 name(access.by.event, *access.cells, 0), access.owner));
  }

  bool do_all_hear() const {
    for (const int representative : parts_.orbits.representatives())
      if (!hears_all(parts_.part_of(representative), representative, parts_.shape.ranks)) return false;
    return true;
  }

  Found conflict(int event, std::string_view verb, const Cells& cells, int offset, TranslatedEvent other,
                 TranslatedEvent now, std::string_view other_verb) const {
    StepPosition place = place_of(parts_, graph_.at(other.event));
    place.rank = parts_.orbits.moved_rank(place.rank, seen_from(other, now).move);
    return violation(event, fmt::format("{} {} while {} may still {} it", verb, name(event, cells, offset),
                                        describe(place), other_verb));
  }

  Violation violation(int event, std::string message) const {
    return broken(Violation::Rule::races, place_of(parts_, graph_.at(event)), std::move(message));
  }
  std::string name(int event, const Cells& cells, int offset) const { return describe(cells, offset, rank_of(event)); }
  int chunk_offset(int event, int i) const {
    return is_chunkwise(graph_.at(event).what->kind) ? graph_.at(event).chunk : i;
  }
  int rank_of(int event) const { return parts_.rank_of(graph_.at(event).worker); }
  CellHistory& history_of(int cell) { return history_[static_cast<std::size_t>(cell)]; }

  const ProgramParts& parts_;
  const EventGraph& graph_;
  const CellMap cells_;
  const HappensBefore& before_;
  std::vector<CellHistory> history_;
  std::vector<Read> reads_;
  std::vector<RemoteAccess> remote_;
  Found found_;
};

}  // namespace

std::vector<std::optional<Violation>> check_races(const ProgramParts& parts, const EventGraph& graph,
                                                  const std::vector<int>& order,
                                                  const std::vector<Placement>& placements) {
  HappensBefore before(parts, graph);
  std::vector<Races> races;
  races.reserve(placements.size());
  for (const Placement placement : placements) races.emplace_back(parts, graph, before, placement);
  for (const int event : order) {
    before.enter(event);
    for (Races& each : races) each.check(event);
  }
  std::vector<std::optional<Violation>> found;
  for (Races& each : races) found.push_back(each.finish());
  return found;
}

}  // namespace tutti::checking
