// What happens in a run and what must happen before what. Internal to the checker.
//
// Every step is an event. A step that sends or receives happens chunk by chunk, since its peer takes chunks as they
// come; any other step has one chunk here. Events of a worker have consecutive numbers in program order, which is the
// first kind of edge. The others:
//   message   the send of a chunk before its receive, the signal before its wait; at most one in and one out per event,
//             which has as many chunks at the other end
//   after     the last chunk of the event depended on before the first of the dependent
//   slot      the receive of a chunk before the send `slots` chunks later on the same channel
// So a chunk of an event happens before one of another if a path leads there with an edge of the worker's or of `after`
// in it; or by messages alone, if it is no later chunk of its event than the other is.
// With a symmetry, events are those of the representatives, each of which stands for itself and all that it is
// translated to. There is a cycle among all events if and only if there is one among these: a walk along a cycle of
// these leads from an event to itself translated, and repeated to the event itself, since translations come back.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "program/check/check_parts.hpp"

namespace tutti::checking {

inline constexpr int kNone = -1;

struct StepEvent {
  int worker;  // numbered through all ranks
  int step;
  int chunks;
  int first_chunk;  // chunks are numbered through all events
  const Step* what;

  int last_chunk() const { return first_chunk + chunks - 1; }
};

/// An event as it happens on the ranks that a translation takes its representative to.
struct TranslatedEvent {
  int event = kNone;
  int translation = 0;
};

/// For each event a list of others.
class Adjacency {
 public:
  Adjacency() = default;
  /// From pairs (event, other).
  Adjacency(int events, const std::vector<std::pair<int, int>>& pairs);
  bool is_empty() const { return others_.empty(); }
  std::span<const int> of(int event) const {
    if (is_empty()) return {};
    const auto begin = static_cast<std::size_t>(begin_[static_cast<std::size_t>(event)]);
    const auto end = static_cast<std::size_t>(begin_[static_cast<std::size_t>(event) + 1]);
    return std::span<const int>(others_).subspan(begin, end - begin);
  }

 private:
  std::vector<int> begin_;
  std::vector<int> others_;
};

struct EventGraph {
  std::vector<StepEvent> events;
  std::vector<int> first_event;               // of each worker; one more at the end
  std::vector<TranslatedEvent> message_from;  // per event, seen from it; kNone if it receives nothing
  std::vector<TranslatedEvent> message_to;
  Adjacency waits_for;  // `after`
  Adjacency awaited_by;

  int size() const { return static_cast<int>(events.size()); }
  int chunks() const { return events.empty() ? 0 : events.back().last_chunk() + 1; }
  const StepEvent& at(int event) const { return events[static_cast<std::size_t>(event)]; }
  TranslatedEvent sender_of(int event) const { return message_from[static_cast<std::size_t>(event)]; }
  TranslatedEvent receiver_of(int event) const { return message_to[static_cast<std::size_t>(event)]; }
};

inline bool touches_cells(const Step& step) { return !step.sources.empty() || !step.targets.empty(); }
/// True for steps that happen chunk by chunk.
inline bool is_chunkwise(StepKind kind) { return sends(kind) || receives(kind); }

/// The graph refers to steps of `parts`. Applies the rule `matching`.
Checked<EventGraph> build_graph(const ProgramParts& parts);

/// An order of all events in which each may happen whole: every edge but those of slots leads to a later event.
/// Applies the rule `deadlock`.
Checked<std::vector<int>> order_events(const ProgramParts& parts, const EventGraph& graph, int slots);

inline const Step& step_of(const ProgramParts&, const StepEvent& event) { return *event.what; }
StepPosition place_of(const ProgramParts& parts, const StepEvent& event);

}  // namespace tutti::checking
