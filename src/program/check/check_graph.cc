#include "program/check/check_graph.hpp"

#include <algorithm>

#include "program/check/check_matching.hpp"

namespace tutti::checking {
namespace {

int chunks_moved(const Step& step) {
  if (!step.sources.empty()) return step.sources[0].count;
  return step.targets.empty() ? 1 : step.targets[0].count;
}

void lay_out(const ProgramParts& parts, EventGraph& graph) {
  graph.first_event.reserve(parts.workers.size() + 1);
  std::size_t events = 0;
  for (std::size_t worker = 0; worker < parts.workers.size(); ++worker) {
    graph.first_event.push_back(static_cast<int>(events));
    events += parts.worker(static_cast<int>(worker)).steps.size();
  }
  graph.first_event.push_back(static_cast<int>(events));
  graph.events.reserve(events);
  int first_chunk = 0;
  for (std::size_t worker = 0; worker < parts.workers.size(); ++worker) {
    int number = 0;
    for (const Step& step : parts.worker(static_cast<int>(worker)).steps) {
      const int chunks = is_chunkwise(step.kind) ? chunks_moved(step) : 1;
      graph.events.push_back({static_cast<int>(worker), number++, chunks, first_chunk, &step});
      first_chunk += chunks;
    }
  }
}

void link_dependencies(const ProgramParts& parts, EventGraph& graph) {
  std::vector<std::pair<int, int>> forward;
  std::vector<std::pair<int, int>> backward;
  for (int event = 0; event < graph.size(); ++event) {
    const std::vector<Dependency>& after = graph.at(event).what->after;
    if (after.empty()) continue;
    const int representative = parts.orbits.representative_index(parts.rank_of(graph.at(event).worker));
    const int first_of_rank = parts.first_worker[static_cast<std::size_t>(representative)];
    for (const Dependency& dependency : after) {
      const int worker = first_of_rank + dependency.worker;
      const int earlier = graph.first_event[static_cast<std::size_t>(worker)] + dependency.step;
      backward.emplace_back(event, earlier);
      forward.emplace_back(earlier, event);
    }
  }
  graph.waits_for = Adjacency(graph.size(), backward);
  graph.awaited_by = Adjacency(graph.size(), forward);
}

}  // namespace

Adjacency::Adjacency(int events, const std::vector<std::pair<int, int>>& pairs) : others_(pairs.size()) {
  if (pairs.empty()) return;
  begin_.assign(static_cast<std::size_t>(events) + 1, 0);
  for (const auto& [event, other] : pairs) ++begin_[static_cast<std::size_t>(event) + 1];
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  std::vector<int> next(begin_.begin(), begin_.end() - 1);
  for (const auto& [event, other] : pairs)
    others_[static_cast<std::size_t>(next[static_cast<std::size_t>(event)]++)] = other;
}

Checked<EventGraph> build_graph(const ProgramParts& parts) {
  EventGraph graph;
  lay_out(parts, graph);
  link_dependencies(parts, graph);
  if (auto found = link_messages(parts, graph)) return tl::unexpected(*std::move(found));
  return graph;
}

StepPosition place_of(const ProgramParts& parts, const StepEvent& event) {
  const ProgramParts::WorkerId& id = parts.workers[static_cast<std::size_t>(event.worker)];
  return {id.rank, id.worker, event.step};
}

}  // namespace tutti::checking
