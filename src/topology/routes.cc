#include "topology/routes.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>

namespace tutti {

namespace {

bool is_gpu(const Topology& topology, int vertex) { return topology.vertex(vertex).kind == VertexKind::gpu; }

}  // namespace

Routes::Routes(const Topology& topology) : topology_(&topology), trees_(static_cast<std::size_t>(topology.ranks())) {
  std::map<std::pair<int, int>, int> side_by_side;
  for (const Link& link : topology.links())
    if (is_gpu(topology, link.from) && is_gpu(topology, link.to))
      period_ = std::lcm(period_, ++side_by_side[{link.from, link.to}]);
}

std::vector<int> Routes::links_between(int from, int to) const {
  std::vector<int> found;
  for (const int link : topology_->out_links(topology_->gpu(from)))
    if (topology_->link(link).to == topology_->gpu(to)) found.push_back(link);
  return found;
}

const Routes::Tree& Routes::tree_of(int rank) {
  Tree& tree = trees_[static_cast<std::size_t>(rank)];
  if (!tree.empty()) return tree;
  using Entry = std::tuple<int /*links*/, double /*latency*/, int /*link*/>;
  tree.assign(static_cast<std::size_t>(topology_->vertex_count()), -1);
  const int source = topology_->gpu(rank);
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> waiting;
  const auto look_from = [&](int vertex, int links, double latency) {
    for (const int link : topology_->out_links(vertex))
      waiting.emplace(links + 1, latency + topology_->link(link).latency.value(), link);
  };
  look_from(source, 0, 0);
  while (!waiting.empty()) {
    const auto [links, latency, link] = waiting.top();
    waiting.pop();
    const int vertex = topology_->link(link).to;
    int& last = tree[static_cast<std::size_t>(vertex)];
    if (vertex == source || last >= 0) continue;
    last = link;
    if (!is_gpu(*topology_, vertex)) look_from(vertex, links, latency);
  }
  return tree;
}

int Routes::count(int from, int to) {
  if (from == to) return 0;
  const int direct = static_cast<int>(links_between(from, to).size());
  if (direct > 0) return direct;
  return tree_of(from)[static_cast<std::size_t>(topology_->gpu(to))] >= 0 ? 1 : 0;
}

std::vector<int> Routes::links(int from, int to, int channel) {
  if (from == to) return {};
  const std::vector<int> direct = links_between(from, to);
  if (!direct.empty()) return {direct[static_cast<std::size_t>(channel) % direct.size()]};
  const Tree& tree = tree_of(from);
  std::vector<int> path;
  for (int vertex = topology_->gpu(to); vertex != topology_->gpu(from); vertex = topology_->link(path.back()).from) {
    const int last = tree[static_cast<std::size_t>(vertex)];
    if (last < 0) return {};
    path.push_back(last);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<int> Routes::reached(int from) {
  const Tree& tree = tree_of(from);
  std::vector<int> ranks;
  for (int rank = 0; rank < topology_->ranks(); ++rank)
    if (rank != from && tree[static_cast<std::size_t>(topology_->gpu(rank))] >= 0) ranks.push_back(rank);
  return ranks;
}

}  // namespace tutti
