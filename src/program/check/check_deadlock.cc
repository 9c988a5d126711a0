// The rule `deadlock`: an order of all events, or the story of why there is none.
#include <fmt/format.h>

#include <algorithm>

#include "program/check/check_graph.hpp"

namespace tutti::checking {
namespace {

constexpr std::size_t kHopsTold = 6;

bool follows_in_worker(const EventGraph& graph, int event) {
  return event > 0 && graph.at(event - 1).worker == graph.at(event).worker;
}

/// Calls `use` for every event that comes right after `event`.
template <typename Use>
void for_each_next(const EventGraph& graph, int event, Use use) {
  const auto at = static_cast<std::size_t>(event);
  if (event + 1 < graph.size() && follows_in_worker(graph, event + 1)) use(event + 1);
  if (graph.message_to[at] != kNone) use(graph.message_to[at]);
  if (graph.slot_to[at] != kNone) use(graph.slot_to[at]);
  for (const int next : graph.awaited_by.of(event)) use(next);
}

int count_before(const EventGraph& graph, int event) {
  const auto at = static_cast<std::size_t>(event);
  return static_cast<int>(follows_in_worker(graph, event)) + static_cast<int>(graph.message_from[at] != kNone) +
         static_cast<int>(graph.slot_from[at] != kNone) + static_cast<int>(graph.waits_for.of(event).size());
}

/// Tells the cycle in which workers are stuck, given which events could happen.
class Deadlock {
 public:
  Deadlock(const ProgramParts& parts, const EventGraph& graph, const std::vector<int>& missing)
      : parts_(parts), graph_(graph), missing_(missing) {}

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
    int event = first_stuck();
    while (position[worker_of(event)] == kNone) {
      position[worker_of(event)] = static_cast<int>(path.size());
      path.push_back(event);
      event = stuck_event(graph_.at(awaited(event)).worker);
    }
    path.erase(path.begin(), path.begin() + position[worker_of(event)]);
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
    return path;
  }

  std::string tell_hop(int event, int next_stuck) const {
    const int other = awaited(event);
    std::string text = fmt::format(" waits for {}", name(other));
    if (other == graph_.slot_from[static_cast<std::size_t>(event)]) text += " to free a slot";
    const StepEvent& next = graph_.at(next_stuck);
    if (graph_.at(other).step != next.step)
      text += fmt::format(", which comes after step {} ({})", next.step, what(next));
    return text;
  }

  bool is_missing(int event) const { return missing_[static_cast<std::size_t>(event)] > 0; }
  std::size_t worker_of(int event) const { return static_cast<std::size_t>(graph_.at(event).worker); }

  int first_stuck() const {
    int event = 0;
    while (!is_missing(event)) ++event;
    return event;
  }

  int stuck_event(int worker) const {
    int event = graph_.first_event[static_cast<std::size_t>(worker)];
    while (!is_missing(event)) ++event;
    return event;
  }

  /// An event of another worker that did not happen and that a stuck event needs.
  int awaited(int event) const {
    const auto at = static_cast<std::size_t>(event);
    if (graph_.message_from[at] != kNone && is_missing(graph_.message_from[at])) return graph_.message_from[at];
    for (const int other : graph_.waits_for.of(event))
      if (is_missing(other)) return other;
    return graph_.slot_from[at];
  }

  std::string what(const StepEvent& event) const {
    return describe(parts_.worker(event.worker), step_of(parts_, event));
  }
  std::string name(int event) const {
    return fmt::format("{} ({})", describe(place_of(parts_, graph_.at(event))), what(graph_.at(event)));
  }

  const ProgramParts& parts_;
  const EventGraph& graph_;
  const std::vector<int>& missing_;  // per event, how many of those before it did not happen
};

}  // namespace

Checked<std::vector<int>> order_events(const ProgramParts& parts, const EventGraph& graph) {
  std::vector<int> missing(graph.events.size());
  std::vector<int> order;
  order.reserve(graph.events.size());
  for (int event = 0; event < graph.size(); ++event) {
    missing[static_cast<std::size_t>(event)] = count_before(graph, event);
    if (missing[static_cast<std::size_t>(event)] == 0) order.push_back(event);
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for_each_next(graph, order[i], [&](int next) {
      if (--missing[static_cast<std::size_t>(next)] == 0) order.push_back(next);
    });
  if (order.size() < graph.events.size()) return tl::unexpected(Deadlock(parts, graph, missing).explain());
  return order;
}

}  // namespace tutti::checking
