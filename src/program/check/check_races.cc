#include "program/check/check_races.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "program/check/check_clock.hpp"

namespace tutti::checking {
namespace {

using Found = std::optional<Violation>;

/// A chunk of an event, as it happens on the ranks that a translation takes its representative to.
struct Moment {
  int event;
  int chunk;
  int translation;
};

/// By what it is found out what happened before what: by all edges, or, which takes less time, by those between steps
/// of one rank alone. What is ordered by these is ordered.
enum class Scope { all, own_rank };

/// Follows events in order and says of any earlier chunk whether it surely happened before one of the current event.
class HappensBefore {
 public:
  HappensBefore(const ProgramParts& parts, const EventGraph& graph, Scope scope)
      : graph_(graph),
        parts_(parts),
        scope_(scope),
        workers_(static_cast<int>(parts.workers.size())),
        clocks_(width_of(parts, scope)),
        known_(parts.workers.size(), ClockPool::kNoClock),
        sent_(scope == Scope::all ? graph.events.size() : 0, ClockPool::kNoClock),
        left_(graph.awaited_by.is_empty() ? 0 : graph.events.size(), ClockPool::kNoClock) {
    if (scope == Scope::all) at_end_.assign(parts.orbits.representatives().size(), VectorClock(width_of(parts, scope)));
  }

  /// Begins an event.
  void enter(int event) {
    if (scope_ == Scope::all && graph_.sender_of(event).event != kNone) {
      const TranslatedEvent from = graph_.sender_of(event);
      hear(event, sent_[static_cast<std::size_t>(from.event)], {from.event, 0, from.translation});
    }
    for (const int earlier : graph_.waits_for.of(event))
      hear(event, left_[static_cast<std::size_t>(earlier)], {earlier, graph_.at(earlier).chunks - 1, 0});
    if (scope_ == Scope::all && graph_.receiver_of(event).event != kNone)
      sent_[static_cast<std::size_t>(event)] = clocks_.share(known(event));
  }

  /// Ends the event that was entered last.
  void leave(int event) {
    if (scope_ == Scope::all && graph_.at(event).chunks > 1)
      for_each_sender(event, [&](TranslatedEvent sender) {
        const StepEvent& sent = graph_.at(sender.event);
        clocks_.own(known(event)).learn(number_of(sent.worker, sender.translation), sent.last_chunk());
        return false;
      });
    for ([[maybe_unused]] const int next : graph_.awaited_by.of(event))
      left_[static_cast<std::size_t>(event)] = clocks_.share(known(event));
    if (scope_ == Scope::all && is_last_of_worker(event)) end_worker(event);
  }

  /// `earlier` happened before `now`, which is of the event entered last, on its representative.
  bool is_before(const Moment& earlier, const Moment& now) const {
    const StepEvent& then = graph_.at(earlier.event);
    const int worker = graph_.at(now.event).worker;
    if (earlier.translation == 0 && then.worker == worker)
      return then.first_chunk + earlier.chunk <= graph_.at(now.event).first_chunk + now.chunk;
    const int clock = known_[static_cast<std::size_t>(worker)];
    if (clock != ClockPool::kNoClock &&
        clocks_[clock].last(number_of(then.worker, earlier.translation)) >= then.first_chunk + earlier.chunk)
      return true;
    // The clock is that of the first chunk.
    return scope_ == Scope::all && now.chunk > 0 && earlier.chunk <= now.chunk &&
           for_each_sender(now.event, [&](TranslatedEvent sender) {
             return sender.event == earlier.event && sender.translation == earlier.translation;
           });
  }

  /// After all events: `access` happened before the last step of `representative`.
  bool is_before_end(TranslatedEvent access, int representative) const {
    const int worker = number_of(graph_.at(access.event).worker, access.translation);
    return at_end_[static_cast<std::size_t>(parts_.orbits.representative_index(representative))].last(worker) >=
           graph_.at(access.event).last_chunk();
  }

 private:
  static std::size_t width_of(const ProgramParts& parts, Scope scope) {
    if (scope == Scope::all) return parts.workers.size() * static_cast<std::size_t>(parts.orbits.translations());
    std::size_t most = 0;
    for (const RankProgram& part : parts.ranks) most = std::max(most, part.workers.size());
    return most;
  }

  int& known(int event) { return known_[static_cast<std::size_t>(graph_.at(event).worker)]; }
  /// Of a worker in clocks; within a rank, of those of the rank.
  int number_of(int worker, int translation) const {
    return scope_ == Scope::all ? translation * workers_ + worker
                                : parts_.workers[static_cast<std::size_t>(worker)].worker;
  }

  /// Calls `use` with whoever sent what an event receives, whoever sent it to them, and so on, as seen from the event,
  /// until it returns true. Returns whether it did. Chunk by chunk, each of these happens before the next.
  template <typename Use>
  bool for_each_sender(int event, Use use) const {
    if (!receives(graph_.at(event).what->kind)) return false;
    int translation = 0;
    for (TranslatedEvent from = graph_.sender_of(event); from.event != kNone; from = graph_.sender_of(from.event)) {
      translation = parts_.orbits.both(from.translation, translation);
      if (use(TranslatedEvent{from.event, translation})) return true;
    }
    return false;
  }

  /// Adds what was known when `from` happened, which is given up, and `from` itself.
  void hear(int event, int clock, const Moment& from) {
    // Who knows an event knows all that came before it.
    if (!is_before(from, {event, 0, 0})) {
      VectorClock& mine = clocks_.own(known(event));
      if (clock != ClockPool::kNoClock && from.translation == 0) mine.learn(clocks_[clock]);
      if (clock != ClockPool::kNoClock && from.translation != 0)
        mine.learn(clocks_[clock], parts_.orbits.row(from.translation), workers_);
      const StepEvent& heard = graph_.at(from.event);
      mine.learn(number_of(heard.worker, from.translation), heard.first_chunk + from.chunk);
    }
    clocks_.release(clock);
  }

  bool is_last_of_worker(int event) const {
    return graph_.first_event[static_cast<std::size_t>(graph_.at(event).worker) + 1] == event + 1;
  }

  void end_worker(int event) {
    const int worker = graph_.at(event).worker;
    VectorClock& end = at_end_[static_cast<std::size_t>(parts_.orbits.representative_index(parts_.rank_of(worker)))];
    if (known(event) != ClockPool::kNoClock) end.learn(clocks_[known(event)]);
    end.learn(worker, graph_.at(event).last_chunk());
  }

  const EventGraph& graph_;
  const ProgramParts& parts_;
  const Scope scope_;
  const int workers_;  // of the representatives
  ClockPool clocks_;
  std::vector<int> known_;           // per worker, its clock: none while it has heard of nobody
  std::vector<int> sent_;            // per event, the clock that goes with its message
  std::vector<int> left_;            // per event, the clock at its end for each that comes after
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
        history_(static_cast<std::size_t>(cells_.size())) {
    reads_.reserve(static_cast<std::size_t>(std::min(graph.chunks(), 1 << 16)));
  }

  /// Of the event that `before` has entered last. Keeps the first violation.
  void check(int event) {
    if (!found_) found_ = check_event(event);
  }

  /// After all events.
  Found finish(const std::vector<int>& order) {
    if (!found_ && parts_.one_sided) found_ = check_ends(order);
    return std::move(found_);
  }

 private:
  struct Read {
    Moment by;
    bool is_sent;  // other ranks may write once it was received
    int next;      // of the same cell, earlier; an index into reads_
  };
  struct CellHistory {
    Moment write{kNone, 0, 0};
    int reads = kNone;  // since the write, the last one
  };
  enum class Touch : std::uint8_t { reads, reads_scratch, writes };

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
    const Located located = cells_.locate(rank_of(event), cells);
    Moment now{event, 0, located.translation};
    known_ = {};
    const bool by_chunk = is_chunkwise(graph_.at(event).what->kind);
    for (int i = 0; i < located.count; ++i) {
      if (by_chunk) now.chunk = i;
      CellHistory& history = history_of(located.first + i);
      if (history.write.event != kNone && !is_before(history.write, now))
        return conflict(event, "reads", cells, i, history.write, now, "write");
      reads_.push_back({now, is_sent, history.reads});
      history.reads = static_cast<int>(reads_.size()) - 1;
    }
    return std::nullopt;
  }

  Found write(int event, const Cells& cells) {
    const Located located = cells_.locate(rank_of(event), cells);
    Moment now{event, 0, located.translation};
    known_ = {};
    const bool by_chunk = is_chunkwise(graph_.at(event).what->kind);
    for (int i = 0; i < located.count; ++i) {
      if (by_chunk) now.chunk = i;
      CellHistory& history = history_of(located.first + i);
      if (history.write.event != kNone && !is_before(history.write, now))
        return conflict(event, "writes", cells, i, history.write, now, "write");
      const Read* earliest = nullptr;  // of those that are not over
      for (int next = history.reads; next != kNone; next = reads_[static_cast<std::size_t>(next)].next)
        if (const Read& earlier = reads_[static_cast<std::size_t>(next)]; !is_read_over(earlier, now))
          earliest = &earlier;
      if (earliest != nullptr) return conflict(event, "writes", cells, i, earliest->by, now, "read");
      history = {now, kNone};
    }
    return std::nullopt;
  }

  /// Of what two events do to the same cell of a representative.
  bool is_before(const Moment& earlier, const Moment& now) {
    if (earlier.event == known_.event && earlier.translation == known_.translation) return true;
    Moment seen = seen_from(earlier, now);
    if (before_.is_before(seen, {now.event, now.chunk, 0})) {
      seen.chunk = graph_.at(earlier.event).chunks - 1;
      if (seen.chunk == earlier.chunk || before_.is_before(seen, {now.event, now.chunk, 0}))
        known_ = {earlier.event, earlier.translation};
      return true;
    }
    return false;
  }
  Moment seen_from(const Moment& other, const Moment& now) const {
    return {other.event, other.chunk, parts_.orbits.both(other.translation, parts_.orbits.opposite(now.translation))};
  }

  bool is_read_over(const Read& read, const Moment& now) {
    const bool same_rank = rank_of(read.by.event) == rank_of(now.event) && read.by.translation == now.translation;
    if (same_rank || !read.is_sent) return is_before(read.by, now);
    const TranslatedEvent receive = graph_.receiver_of(read.by.event);
    return is_before({receive.event, read.by.chunk, parts_.orbits.both(receive.translation, read.by.translation)}, now);
  }

  /// Calls `use` with each access to a cell of another rank.
  template <typename Use>
  void for_each_remote(int event, Use use) const {
    const Step& step = *graph_.at(event).what;
    if ((step.kind != StepKind::copy && step.kind != StepKind::reduce) ||
        cells_.moves_onto_itself(rank_of(event), step))
      return;
    for (const Cells& cells : step.sources)
      if (cells.rank != kSelf && cells.rank != rank_of(event))
        use(cells, cells.buffer == Buffer::scratch ? Touch::reads_scratch : Touch::reads);
    for (const Cells& cells : step.targets)
      if (cells.rank != kSelf && cells.rank != rank_of(event)) use(cells, Touch::writes);
  }

  /// Nobody may touch a rank's buffers after it has returned. Its scratch may be read, where every rank hears of every
  /// other: the program after the next one, which writes it again, then begins after all have ended this one.
  Found check_ends(const std::vector<int>& order) const {
    // Of all that come too late, the last one by the first worker that touches the first rank is reported.
    using Key = std::tuple<int, int, Touch>;
    std::map<Key, std::pair<int, const Cells*>> late;
    std::optional<bool> all_hear;
    for (const int event : order)
      for_each_remote(event, [&](const Cells& cells, Touch touch) {
        const int translation = parts_.orbits.opposite(parts_.orbits.translation_of(cells.rank));
        if (before_.is_before_end({event, translation}, cells.rank)) return;
        if (touch == Touch::reads_scratch) {
          if (!all_hear) all_hear = do_all_hear();
          if (*all_hear) return;
        }
        late[{cells.rank, graph_.at(event).worker, touch}] = {event, &cells};
      });
    if (late.empty()) return std::nullopt;
    const auto& [key, access] = *late.begin();
    const auto& [owner, worker, touch] = key;
    const auto& [event, cells] = access;
    return violation(event, fmt::format("{} {}, but rank {} may return before: no step of it comes after this",
                                        touch == Touch::writes ? "writes" : "reads", name(event, *cells, 0), owner));
  }

  bool do_all_hear() const {
    for (const int representative : parts_.orbits.representatives())
      if (!hears_all(parts_.part_of(representative), representative, parts_.shape.ranks)) return false;
    return true;
  }

  Found conflict(int event, std::string_view verb, const Cells& cells, int offset, const Moment& other,
                 const Moment& now, std::string_view other_verb) const {
    StepPosition place = place_of(parts_, graph_.at(other.event));
    place.rank = parts_.orbits.translated_rank(place.rank, seen_from(other, now).translation);
    return violation(event, fmt::format("{} {} while {} may still {} it", verb, name(event, cells, offset),
                                        describe(place), other_verb));
  }

  Violation violation(int event, std::string message) const {
    return broken(Violation::Rule::races, place_of(parts_, graph_.at(event)), std::move(message));
  }
  std::string name(int event, const Cells& cells, int offset) const { return describe(cells, offset, rank_of(event)); }
  int rank_of(int event) const { return parts_.rank_of(graph_.at(event).worker); }
  CellHistory& history_of(int cell) { return history_[static_cast<std::size_t>(cell)]; }

  const ProgramParts& parts_;
  const EventGraph& graph_;
  const CellMap cells_;
  const HappensBefore& before_;
  std::vector<CellHistory> history_;
  std::vector<Read> reads_;
  TranslatedEvent known_;  // of the cells at hand: all chunks of this event are before what touches them now
  Found found_;
};

using Results = std::vector<Found>;

Results check_in(const ProgramParts& parts, const EventGraph& graph, const std::vector<int>& order, Scope scope,
                 const std::vector<Placement>& placements) {
  HappensBefore before(parts, graph, scope);
  std::vector<Races> races;
  races.reserve(placements.size());
  for (const Placement placement : placements) races.emplace_back(parts, graph, before, placement);
  for (const int event : order) {
    before.enter(event);
    if (touches_cells(*graph.at(event).what))
      for (Races& each : races) each.check(event);
    before.leave(event);
  }
  Results found;
  for (Races& each : races) found.push_back(each.finish(order));
  return found;
}

/// Some copies do nothing in place.
bool has_idle_copies(const ProgramParts& parts, const EventGraph& graph) {
  const CellMap cells(parts, Placement::in_place);
  return std::any_of(graph.events.begin(), graph.events.end(), [&](const StepEvent& event) {
    return cells.moves_onto_itself(parts.rank_of(event.worker), *event.what);
  });
}

bool is_clean(const Results& results) {
  return std::none_of(results.begin(), results.end(), [](const Found& found) { return found.has_value(); });
}

}  // namespace

/// What costs less comes first; whether a program is right may turn out there, what is wrong with it only in the end.
std::vector<std::optional<Violation>> check_races(const ProgramParts& parts, const EventGraph& graph,
                                                  const std::vector<int>& order,
                                                  const std::vector<Placement>& placements) {
  // Two cells that are one out of place are one in place, too. So what is apart in place is apart out of place, if
  // steps do the same there.
  std::vector<Placement> enough = placements;
  if (!has_idle_copies(parts, graph)) enough = {placements.back()};
  if (!parts.one_sided && is_clean(check_in(parts, graph, order, Scope::own_rank, enough)))
    return Results(placements.size());
  if (enough.size() < placements.size() && is_clean(check_in(parts, graph, order, Scope::all, enough)))
    return Results(placements.size());
  return check_in(parts, graph, order, Scope::all, placements);
}

}  // namespace tutti::checking
