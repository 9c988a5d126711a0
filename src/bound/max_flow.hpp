// Maximum flow and minimum cut by Dinic's algorithm, exact in whole numbers.
//
// One network is built once and solved for many sinks: `solve` starts from an empty flow. The capacities of arcs may be
// changed in between. Amount is std::int64_t, or __int128 where sums need it; the caller sees to it that the capacities
// of all arcs together fit. Own code and not LEMON's: docs/dependencies.md says why. Not to be shared between threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace tutti {

template <typename Amount>
class MaxFlow {
 public:
  explicit MaxFlow(int vertices) : heads_(static_cast<std::size_t>(vertices)) {}

  /// The arc's number, for set_capacity.
  int add_arc(int from, int to, Amount capacity) {
    const int arc = static_cast<int>(pending_.size());
    pending_.push_back({from, to});
    capacity_.push_back(capacity);
    return arc;
  }

  /// To be called when all arcs are there, before solve.
  void finish() {
    const std::size_t vertices = heads_.size();
    std::vector<int> degree(vertices + 1, 0);
    for (const auto& [from, to] : pending_) {
      ++degree[static_cast<std::size_t>(from)];
      ++degree[static_cast<std::size_t>(to)];
    }
    first_.assign(vertices + 1, 0);
    for (std::size_t v = 0; v < vertices; ++v) first_[v + 1] = first_[v] + degree[v];
    std::vector<int> next(first_.begin(), first_.end() - 1);
    edges_.resize(pending_.size() * 2);
    place_.resize(pending_.size());
    for (std::size_t arc = 0; arc < pending_.size(); ++arc) {
      const auto [from, to] = pending_[arc];
      const int forth = next[static_cast<std::size_t>(from)]++, back = next[static_cast<std::size_t>(to)]++;
      edges_[static_cast<std::size_t>(forth)] = {to, back};
      edges_[static_cast<std::size_t>(back)] = {from, forth};
      place_[arc] = forth;
    }
    full_.assign(edges_.size(), 0);
    for (std::size_t arc = 0; arc < place_.size(); ++arc) full_[static_cast<std::size_t>(place_[arc])] = capacity_[arc];
  }

  void set_capacity(int arc, Amount capacity) {
    full_[static_cast<std::size_t>(place_[static_cast<std::size_t>(arc)])] = capacity;
  }

  /// The largest flow, or `enough` as soon as that much is found.
  Amount solve(int source, int sink, Amount enough = std::numeric_limits<Amount>::max()) {
    residual_ = full_;
    Amount flow = 0;
    while (flow < enough && rank_from_sink(source, sink)) {
      heads_.assign(first_.begin(), first_.end() - 1);
      flow += push(source, sink, enough - flow);
    }
    return flow;
  }

  /// After solve: what flows over an arc.
  Amount flow_on(int arc) const {
    const auto place = static_cast<std::size_t>(place_[static_cast<std::size_t>(arc)]);
    return full_[place] - residual_[place];
  }

  /// After solve: [vertex] = whether it lies on the source's side of a minimum cut. Of no use where `enough` stopped
  /// it.
  std::vector<bool> source_side(int source) const {
    std::vector<bool> inside(heads_.size(), false);
    std::vector<int> open{source};
    inside[static_cast<std::size_t>(source)] = true;
    while (!open.empty()) {
      const auto vertex = static_cast<std::size_t>(open.back());
      open.pop_back();
      for (int e = first_[vertex]; e < first_[vertex + 1]; ++e) {
        const auto to = static_cast<std::size_t>(edges_[static_cast<std::size_t>(e)].to);
        if (residual_[static_cast<std::size_t>(e)] == 0 || inside[to]) continue;
        inside[to] = true;
        open.push_back(static_cast<int>(to));
      }
    }
    return inside;
  }

 private:
  struct Edge {
    int to;
    int twin;
  };

  /// Distances to the sink along edges with room, until the source is met: what is farther is no use.
  bool rank_from_sink(int source, int sink) {
    level_.assign(heads_.size(), kFar);
    queue_.clear();
    queue_.push_back(sink);
    level_[static_cast<std::size_t>(sink)] = 0;
    for (std::size_t head = 0; head < queue_.size(); ++head) {
      const auto vertex = static_cast<std::size_t>(queue_[head]);
      for (int e = first_[vertex]; e < first_[vertex + 1]; ++e) {
        const Edge& edge = edges_[static_cast<std::size_t>(e)];
        int& level = level_[static_cast<std::size_t>(edge.to)];
        if (level != kFar || residual_[static_cast<std::size_t>(edge.twin)] == 0) continue;
        level = level_[vertex] + 1;
        if (edge.to == source) return true;
        queue_.push_back(edge.to);
      }
    }
    return false;
  }

  /// Depth is the length of a path, which is short here.
  Amount push(int vertex, int sink, Amount limit) {
    if (vertex == sink) return limit;
    const auto at = static_cast<std::size_t>(vertex);
    Amount pushed = 0;
    for (int& e = heads_[at]; e < first_[at + 1]; ++e) {
      const auto index = static_cast<std::size_t>(e);
      const Edge& edge = edges_[index];
      if (residual_[index] == 0 || level_[static_cast<std::size_t>(edge.to)] != level_[at] - 1) continue;
      const Amount step = push(edge.to, sink, std::min(limit - pushed, residual_[index]));
      residual_[index] -= step;
      residual_[static_cast<std::size_t>(edge.twin)] += step;
      pushed += step;
      if (pushed == limit) return pushed;  // this edge may have room yet
    }
    level_[at] = kFar;  // nothing more through here in this phase
    return pushed;
  }

  static constexpr int kFar = std::numeric_limits<int>::max();

  std::vector<std::pair<int, int>> pending_;
  std::vector<Amount> capacity_;
  std::vector<int> first_, place_;  // [vertex] in edges_; [arc] in edges_
  std::vector<Edge> edges_;
  std::vector<Amount> full_, residual_;  // by edge
  std::vector<int> level_, heads_, queue_;
};

}  // namespace tutti
