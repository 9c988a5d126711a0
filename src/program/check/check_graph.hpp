// What happens in a run and what must happen before what. Internal to the checker.
//
// A step that sends or receives happens chunk by chunk, since its peer takes chunks as they come; any other step is one
// event. Events of a worker have consecutive numbers in program order, which is the first kind of edge. The others:
//   message   the send of a chunk before its receive, the signal before its wait; at most one in and one out per event
//   after     the last event of the step depended on before the first of the dependent
//   slot      the receive of a chunk before the send `slots` chunks later on the same channel
// With a symmetry, events are those of the representatives, each of which stands for itself and all that it is moved
// to. There is a cycle among all events if and only if there is one among these: a walk along a cycle of these leads
// from an event to itself moved, and repeated to the event itself, since moves come back.
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
  int chunk;  // which chunk of a step that goes chunk by chunk, else 0
  const Step* what;
};

/// For each event a list of others.
class Adjacency {
 public:
  Adjacency() = default;
  /// From pairs (event, other).
  Adjacency(int events, const std::vector<std::pair<int, int>>& pairs);
  std::span<const int> of(int event) const {
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
  std::vector<int> first_event;   // of each worker; one more at the end
  std::vector<int> message_from;  // kNone where the event receives nothing
  std::vector<int> message_to;
  std::vector<int> from_move;  // message_from happens moved so, seen from the event; 0 without a symmetry
  std::vector<int> to_move;    // so does message_to
  std::vector<int> slot_from;  // the receive that frees the slot this event sends into
  std::vector<int> slot_to;
  Adjacency waits_for;  // `after`
  Adjacency awaited_by;

  int size() const { return static_cast<int>(events.size()); }
  const StepEvent& at(int event) const { return events[static_cast<std::size_t>(event)]; }
};

/// True for steps that happen chunk by chunk.
inline bool is_chunkwise(StepKind kind) { return sends(kind) || receives(kind); }

/// The graph refers to steps of `parts`. Applies the rule `matching`.
Checked<EventGraph> build_graph(const ProgramParts& parts, int slots);

/// An order of all events that respects every edge. Applies the rule `deadlock`.
Checked<std::vector<int>> order_events(const ProgramParts& parts, const EventGraph& graph);

inline const Step& step_of(const ProgramParts&, const StepEvent& event) { return *event.what; }
StepPosition place_of(const ProgramParts& parts, const StepEvent& event);

}  // namespace tutti::checking
