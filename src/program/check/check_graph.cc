#include "program/check/check_graph.hpp"

#include <algorithm>

#include "program/check/check_matching.hpp"

namespace tutti::checking {
namespace {

int chunks_moved(const Step& step) {
  if (!step.sources.empty()) return step.sources[0].count;
  return step.targets.empty() ? 1 : step.targets[0].count;
}

/// Lays out all events; returns the first event of each step, per worker.
std::vector<std::vector<int>> lay_out(const ProgramParts& parts, EventGraph& graph) {
  std::vector<std::vector<int>> first_of_step(parts.workers.size());
  for (std::size_t worker = 0; worker < parts.workers.size(); ++worker) {
    graph.first_event.push_back(graph.size());
    const std::vector<Step>& steps = parts.worker(static_cast<int>(worker)).steps;
    for (std::size_t step = 0; step < steps.size(); ++step) {
      first_of_step[worker].push_back(graph.size());
      const int events = is_chunkwise(steps[step].kind) ? chunks_moved(steps[step]) : 1;
      for (int chunk = 0; chunk < events; ++chunk)
        graph.events.push_back({static_cast<int>(worker), static_cast<int>(step), chunk});
    }
    first_of_step[worker].push_back(graph.size());
  }
  graph.first_event.push_back(graph.size());
  return first_of_step;
}

void link_dependencies(const ProgramParts& parts, const std::vector<std::vector<int>>& first_of_step,
                       EventGraph& graph) {
  std::vector<std::pair<int, int>> forward;
  std::vector<std::pair<int, int>> backward;
  for (std::size_t worker = 0; worker < parts.workers.size(); ++worker) {
    const auto first_of_rank =
        static_cast<std::size_t>(parts.first_worker[static_cast<std::size_t>(parts.workers[worker].rank)]);
    const std::vector<Step>& steps = parts.worker(static_cast<int>(worker)).steps;
    for (std::size_t step = 0; step < steps.size(); ++step)
      for (const Dependency& dependency : steps[step].after) {
        const auto& other = first_of_step[first_of_rank + static_cast<std::size_t>(dependency.worker)];
        const int last = other[static_cast<std::size_t>(dependency.step) + 1] - 1;
        backward.emplace_back(first_of_step[worker][step], last);
        forward.emplace_back(last, first_of_step[worker][step]);
      }
  }
  graph.waits_for = Adjacency(graph.size(), backward);
  graph.awaited_by = Adjacency(graph.size(), forward);
}

}  // namespace

Adjacency::Adjacency(int events, const std::vector<std::pair<int, int>>& pairs)
    : begin_(static_cast<std::size_t>(events) + 1, 0), others_(pairs.size()) {
  for (const auto& [event, other] : pairs) ++begin_[static_cast<std::size_t>(event) + 1];
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  std::vector<int> next(begin_.begin(), begin_.end() - 1);
  for (const auto& [event, other] : pairs)
    others_[static_cast<std::size_t>(next[static_cast<std::size_t>(event)]++)] = other;
}

std::span<const int> Adjacency::of(int event) const {
  const auto begin = static_cast<std::size_t>(begin_[static_cast<std::size_t>(event)]);
  const auto end = static_cast<std::size_t>(begin_[static_cast<std::size_t>(event) + 1]);
  return std::span<const int>(others_).subspan(begin, end - begin);
}

Checked<EventGraph> build_graph(const ProgramParts& parts, int slots) {
  EventGraph graph;
  const std::vector<std::vector<int>> first_of_step = lay_out(parts, graph);
  for (auto* links : {&graph.message_from, &graph.message_to, &graph.slot_from, &graph.slot_to})
    links->assign(graph.events.size(), kNone);
  link_dependencies(parts, first_of_step, graph);
  if (auto found = link_messages(parts, slots, graph)) return tl::unexpected(*std::move(found));
  return graph;
}

const Step& step_of(const ProgramParts& parts, const StepEvent& event) {
  return parts.worker(event.worker).steps[static_cast<std::size_t>(event.step)];
}

StepPosition place_of(const ProgramParts& parts, const StepEvent& event) {
  const ProgramParts::WorkerId& id = parts.workers[static_cast<std::size_t>(event.worker)];
  return {id.rank, id.worker, event.step};
}

}  // namespace tutti::checking
