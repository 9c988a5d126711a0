// The rule `deadlock`: an order of all events, or the story of why there is none.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "program/check/check_graph.hpp"

namespace tutti::checking {
namespace {

constexpr std::size_t kHopsTold = 6;

/// Lets all workers go as far as they can, with so many slots on each channel. What may happen in one order may happen
/// in any other, so one is enough to find out.
class Rehearsal {
 public:
  Rehearsal(const EventGraph& graph, std::size_t workers, int slots) : graph_(graph), slots_(slots), workers_(workers) {
    order_.reserve(graph.events.size());
    due_.reserve(workers);
    for (std::size_t worker = 0; worker < workers; ++worker) {
      workers_[worker].event = graph.first_event[worker];
      workers_[worker].end = graph.first_event[worker + 1];
    }
    for (std::size_t worker = 0; worker < workers; ++worker)
      if (possible_chunks(static_cast<int>(worker)) > 0) wake(static_cast<int>(worker));
    for (std::size_t i = 0; i < due_.size(); ++i) {
      progress_of(due_[i]).is_due = false;
      advance(due_[i]);
    }
  }

  bool is_over() const { return order_.size() == graph_.events.size(); }
  /// The events in the order in which they ended.
  std::vector<int>& order() { return order_; }

  /// The event that a worker has come to; none if it is done.
  int event_of(int worker) const {
    const Progress& progress = progress_of(worker);
    return progress.event == progress.end ? kNone : progress.event;
  }
  struct Awaited {
    int event;
    bool frees_slot;
  };
  /// What a worker that is stuck waits for: an event of another.
  Awaited awaited_by(int worker) const {
    const int event = event_of(worker);
    if (lacks_message(worker, event)) return {graph_.sender_of(event).event, false};
    if (const int earlier = lacked_dependency(event); earlier != kNone) return {earlier, false};
    // The next chunk that the receiver takes frees a slot.
    int receive = progress_of(receiver_of(event)).event;
    while (!receives(graph_.at(receive).what->kind)) ++receive;
    return {receive, true};
  }

 private:
  struct Progress {
    int event = 0;  // at hand
    int end = 0;
    int chunks = 0;    // of the event, that happened
    int sent = 0;      // chunks, of all events
    int received = 0;  // likewise
    bool is_due = false;
  };

  Progress& progress_of(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  const Progress& progress_of(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  /// A worker sends to one other at most, and receives from one at most.
  int receiver_of(int event) const { return graph_.at(graph_.receiver_of(event).event).worker; }
  int sender_of(int event) const { return graph_.at(graph_.sender_of(event).event).worker; }
  bool is_over(int event) const { return progress_of(graph_.at(event).worker).event > event; }

  void wake(int worker) {
    if (std::exchange(progress_of(worker).is_due, true)) return;
    due_.push_back(worker);
  }
  /// Wakes a worker that has come to the event.
  void wake_at(int event) {
    const int worker = graph_.at(event).worker;
    if (progress_of(worker).event == event) wake(worker);
  }

  bool lacks_message(int worker, int event) const {
    if (graph_.sender_of(event).event == kNone) return false;
    if (!receives(graph_.at(event).what->kind)) return !is_over(graph_.sender_of(event).event);
    return progress_of(sender_of(event)).sent == progress_of(worker).received;
  }
  int lacked_dependency(int event) const {
    for (const int earlier : graph_.waits_for.of(event))
      if (!is_over(earlier)) return earlier;
    return kNone;
  }

  void advance(int worker) {
    while (const int chunks = possible_chunks(worker)) move_on(worker, chunks);
  }

  /// How many more chunks of the event that a worker has come to may happen now.
  int possible_chunks(int worker) const {
    const Progress& own = progress_of(worker);
    const int event = own.event;
    if (event == own.end || (own.chunks == 0 && lacked_dependency(event) != kNone)) return 0;
    const StepEvent& at = graph_.at(event);
    if (!is_chunkwise(at.what->kind)) return lacks_message(worker, event) ? 0 : 1;
    int chunks = at.chunks - own.chunks;
    if (receives(at.what->kind)) chunks = std::min(chunks, progress_of(sender_of(event)).sent - own.received);
    if (sends(at.what->kind) && !is_taken_at_once(event))
      chunks = std::min(chunks, slots_ - own.sent + progress_of(receiver_of(event)).received);
    return std::max(chunks, 0);
  }

  /// Whether the receiver has come to what is sent, and can take chunk after chunk: then slots are no limit.
  bool is_taken_at_once(int event) const {
    const int receive = graph_.receiver_of(event).event;
    const Progress& receiver = progress_of(graph_.at(receive).worker);
    return receiver.event == receive && !sends(graph_.at(receive).what->kind) &&
           (receiver.chunks > 0 || lacked_dependency(receive) == kNone);
  }

  void move_on(int worker, int chunks) {
    Progress& own = progress_of(worker);
    const int event = own.event;
    const StepEvent& at = graph_.at(event);
    own.chunks += chunks;
    if (receives(at.what->kind)) {
      own.received += chunks;
      wake_sender(event);
    }
    if (sends(at.what->kind)) {
      own.sent += chunks;
      wake_at(graph_.receiver_of(event).event);
    }
    if (own.chunks == at.chunks) end(worker, event);
  }

  /// Wakes the sender of an event if it may wait for a slot.
  void wake_sender(int event) {
    const int sender = sender_of(event);
    const int sends_next = event_of(sender);
    if (sends_next != kNone && sends(graph_.at(sends_next).what->kind)) wake(sender);
  }

  void end(int worker, int event) {
    order_.push_back(event);
    ++progress_of(worker).event;
    progress_of(worker).chunks = 0;
    for (const int next : graph_.awaited_by.of(event)) wake_at(next);
    if (graph_.at(event).what->kind == StepKind::signal) wake_at(graph_.receiver_of(event).event);
  }

  const EventGraph& graph_;
  const int slots_;
  std::vector<Progress> workers_;
  std::vector<int> due_;  // workers that may be able to go on, in the order of their turns
  std::vector<int> order_;
};

/// Tells the cycle in which workers are stuck.
class Deadlock {
 public:
  Deadlock(const ProgramParts& parts, const EventGraph& graph, const Rehearsal& rehearsal)
      : parts_(parts), graph_(graph), rehearsal_(rehearsal) {}

  Violation explain() const {
    const std::vector<int> cycle = find_cycle();
    std::string sentence = name(cycle[0]);
    for (std::size_t hop = 0; hop < cycle.size(); ++hop) {
      if (hop == kHopsTold && cycle.size() > kHopsTold + 1) {
        sentence += fmt::format(", and so on through {} more workers back to {}", cycle.size() - hop, name(cycle[0]));
        break;
      }
      if (hop > 0) sentence += ", which";
      sentence += tell_hop(cycle[hop], cycle[(hop + 1) % cycle.size()]);
    }
    sentence += ": none of them can go on";
    return broken(Violation::Rule::deadlock, place_of(parts_, graph_.at(cycle[0])), std::move(sentence));
  }

 private:
  /// The events at which workers are stuck, each waiting for one behind the next; the lowest worker first.
  std::vector<int> find_cycle() const {
    std::vector<int> path;
    std::vector<int> position(parts_.workers.size(), kNone);
    int worker = 0;
    while (rehearsal_.event_of(worker) == kNone) ++worker;
    while (position[static_cast<std::size_t>(worker)] == kNone) {
      position[static_cast<std::size_t>(worker)] = static_cast<int>(path.size());
      path.push_back(rehearsal_.event_of(worker));
      worker = graph_.at(rehearsal_.awaited_by(worker).event).worker;
    }
    path.erase(path.begin(), path.begin() + position[static_cast<std::size_t>(worker)]);
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
    return path;
  }

  std::string tell_hop(int event, int next_stuck) const {
    const auto [other, frees_slot] = rehearsal_.awaited_by(graph_.at(event).worker);
    std::string text = fmt::format(" waits for {}", name(other));
    if (frees_slot) text += " to free a slot";
    const StepEvent& next = graph_.at(next_stuck);
    if (graph_.at(other).step != next.step)
      text += fmt::format(", which comes after step {} ({})", next.step, what(next));
    return text;
  }

  std::string what(const StepEvent& event) const {
    return describe(parts_.worker(event.worker), step_of(parts_, event));
  }
  std::string name(int event) const {
    return fmt::format("{} ({})", describe(place_of(parts_, graph_.at(event))), what(graph_.at(event)));
  }

  const ProgramParts& parts_;
  const EventGraph& graph_;
  const Rehearsal& rehearsal_;
};

}  // namespace

Checked<std::vector<int>> order_events(const ProgramParts& parts, const EventGraph& graph, int slots) {
  Rehearsal rehearsal(graph, parts.workers.size(), slots);
  if (!rehearsal.is_over()) return tl::unexpected(Deadlock(parts, graph, rehearsal).explain());
  return std::move(rehearsal.order());
}

}  // namespace tutti::checking
