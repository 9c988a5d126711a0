#include "program/check/check_graph.hpp"

#include <algorithm>

#include "program/check/check_matching.hpp"

namespace tutti::checking {
namespace {

int chunks_moved(const Step& step) {
  if (!step.sources.empty()) return step.sources[0].count;
  return step.targets.empty() ? 1 : step.targets[0].count;
}

/// The first event of each step of each worker, and behind them that of the worker after it.
class StepStarts {
 public:
  void begin_worker() { first_of_worker_.push_back(starts_.size()); }
  void add(int event) { starts_.push_back(event); }
  int first_event(std::size_t worker, std::size_t step) const { return starts_[first_of_worker_[worker] + step]; }
  int last_event(std::size_t worker, std::size_t step) const { return first_event(worker, step + 1) - 1; }

 private:
  std::vector<std::size_t> first_of_worker_;
  std::vector<int> starts_;
};

StepStarts lay_out(const ProgramParts& parts, EventGraph& graph) {
  StepStarts starts;
  for (std::size_t worker = 0; worker < parts.workers.size(); ++worker) {
    graph.first_event.push_back(graph.size());
    starts.begin_worker();
    const std::vector<Step>& steps = parts.worker(static_cast<int>(worker)).steps;
    for (std::size_t step = 0; step < steps.size(); ++step) {
      starts.add(graph.size());
      const int events = is_chunkwise(steps[step].kind) ? chunks_moved(steps[step]) : 1;
      for (int chunk = 0; chunk < events; ++chunk)
        graph.events.push_back({static_cast<int>(worker), static_cast<int>(step), chunk, &steps[step]});
    }
    starts.add(graph.size());
  }
  graph.first_event.push_back(graph.size());
  return starts;
}

void link_dependencies(const ProgramParts& parts, const StepStarts& starts, EventGraph& graph) {
  std::vector<std::pair<int, int>> forward;
  std::vector<std::pair<int, int>> backward;
  for (std::size_t worker = 0; worker < parts.workers.size(); ++worker) {
    const int representative = parts.orbits.representative_index(parts.workers[worker].rank);
    const auto first_of_rank = static_cast<std::size_t>(parts.first_worker[static_cast<std::size_t>(representative)]);
    const std::vector<Step>& steps = parts.worker(static_cast<int>(worker)).steps;
    for (std::size_t step = 0; step < steps.size(); ++step)
      for (const Dependency& dependency : steps[step].after) {
        const int last = starts.last_event(first_of_rank + static_cast<std::size_t>(dependency.worker),
                                           static_cast<std::size_t>(dependency.step));
        backward.emplace_back(starts.first_event(worker, step), last);
        forward.emplace_back(last, starts.first_event(worker, step));
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

Checked<EventGraph> build_graph(const ProgramParts& parts, int slots) {
  EventGraph graph;
  const StepStarts starts = lay_out(parts, graph);
  for (auto* links : {&graph.message_from, &graph.message_to, &graph.slot_from, &graph.slot_to})
    links->assign(graph.events.size(), kNone);
  for (auto* moves : {&graph.from_move, &graph.to_move}) moves->assign(graph.events.size(), 0);
  link_dependencies(parts, starts, graph);
  if (auto found = link_messages(parts, slots, graph)) return tl::unexpected(*std::move(found));
  return graph;
}

StepPosition place_of(const ProgramParts& parts, const StepEvent& event) {
  const ProgramParts::WorkerId& id = parts.workers[static_cast<std::size_t>(event.worker)];
  return {id.rank, id.worker, event.step};
}

}  // namespace tutti::checking
