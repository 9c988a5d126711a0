#include "bound/cuts.hpp"

#include <algorithm>
#include <numeric>

#include "bound/max_flow.hpp"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// GPUs over capacity, both positive.
struct Ratio {
  std::int64_t gpus = 0;
  std::int64_t capacity = 1;

  bool operator<(const Ratio& other) const {
    return static_cast<Wide>(gpus) * static_cast<Wide>(other.capacity) <
           static_cast<Wide>(other.gpus) * static_cast<Wide>(capacity);
  }
};

Ratio ratio_of(const Network& network, const Marks& inside) {
  return {gpus_in(*network.topology, inside), network.capacity_out_of(inside)};
}

/// All but one sink, and all but one node with a sink: often the tightest cuts, and a good start where they are not.
Marks simple_cut(const Network& network, const std::vector<int>& sinks) {
  const Topology& topology = *network.topology;
  std::vector<std::int64_t> into(topology.vertices().size(), 0);
  std::vector<std::int64_t> into_node(at(topology.nodes()), 0);
  std::vector<int> gpus_of_node(at(topology.nodes()), 0);
  for (const int gpu : topology.gpus())
    if (topology.vertex(gpu).node >= 0) ++gpus_of_node[at(topology.vertex(gpu).node)];
  for (int i = 0; i < topology.link_count(); ++i) {
    const Link& link = topology.link(i);
    into[at(link.to)] += network.capacity[at(i)];
    const int node = topology.vertex(link.to).node;
    if (node >= 0 && node != topology.vertex(link.from).node) into_node[at(node)] += network.capacity[at(i)];
  }
  Ratio best;
  int without_gpu = sinks.front(), without_node = -1;
  for (const int sink : sinks) {
    if (const Ratio alone{topology.ranks() - 1, into[at(sink)]}; best < alone) {
      best = alone;
      without_gpu = sink;
      without_node = -1;
    }
    const int node = topology.vertex(sink).node;
    if (node < 0 || into_node[at(node)] == 0) continue;
    if (const Ratio together{topology.ranks() - gpus_of_node[at(node)], into_node[at(node)]}; best < together) {
      best = together;
      without_node = node;
    }
  }
  Marks inside(topology.vertices().size(), 1);
  for (int v = 0; v < topology.vertex_count(); ++v)
    if (without_node >= 0 ? topology.vertex(v).node == without_node : v == without_gpu) inside[at(v)] = 0;
  return inside;
}

Marks first_of(const std::vector<bool>& side, std::size_t count) {
  return {side.begin(), side.begin() + static_cast<std::ptrdiff_t>(count)};
}

/// A network in which a sink gets a block of every GPU, at `ratio` time for each, exactly where no cut is tighter.
template <typename Amount>
class GatherFlow {
 public:
  explicit GatherFlow(const Network& network)
      : network_(network), source_(network.topology->vertex_count()), flow_(source_ + 1) {
    const Topology& topology = *network.topology;
    for (const Link& link : topology.links()) flow_.add_arc(link.from, link.to, 0);
    for (const int gpu : topology.gpus()) flow_.add_arc(source_, gpu, 0);
    flow_.finish();
  }

  void set(const Ratio& ratio) {
    const int links = network_.topology->link_count();
    const std::int64_t common = std::gcd(ratio.gpus, ratio.capacity);
    block_ = ratio.capacity / common;
    for (int i = 0; i < links; ++i)
      flow_.set_capacity(i, static_cast<Amount>(network_.capacity[at(i)]) * static_cast<Amount>(ratio.gpus / common));
    for (int rank = 0; rank < network_.topology->ranks(); ++rank) flow_.set_capacity(links + rank, block_);
  }

  /// Whether the sink gets all blocks; if not, `tighter` is a cut with a larger ratio.
  bool suffices(int sink, Marks& tighter) {
    const Amount all = block_ * static_cast<Amount>(network_.topology->ranks());
    if (flow_.solve(source_, sink, all) == all) return true;
    tighter = first_of(flow_.source_side(source_), network_.topology->vertices().size());
    return false;
  }

 private:
  const Network& network_;
  int source_;
  MaxFlow<Amount> flow_;
  Amount block_ = 0;
};

/// A larger ratio never takes away what a smaller one allowed, so each sink is settled once.
template <typename Amount>
Marks search(const Network& network, const std::vector<int>& sinks, Marks best) {
  GatherFlow<Amount> flow(network);
  flow.set(ratio_of(network, best));
  for (const int sink : sinks)
    while (!flow.suffices(sink, best)) flow.set(ratio_of(network, best));
  return best;
}

}  // namespace

int gpus_in(const Topology& topology, const Marks& inside) {
  int count = 0;
  for (const int gpu : topology.gpus()) count += inside[at(gpu)];
  return count;
}

Marks tightest_gather_cut(const Network& network, const std::vector<int>& sinks) {
  Marks start = simple_cut(network, sinks);
  const std::int64_t total = std::accumulate(network.capacity.begin(), network.capacity.end(), std::int64_t{0});
  // Capacities are multiplied by up to as many as there are ranks, and so are the blocks in the sum.
  const bool narrow = total < (std::int64_t{1} << 61) / network.topology->ranks();
  return narrow ? search<std::int64_t>(network, sinks, std::move(start))
                : search<__int128>(network, sinks, std::move(start));
}

Marks tightest_broadcast_cut(const Network& network, int source, const std::vector<int>& sinks) {
  const Topology& topology = *network.topology;
  MaxFlow<std::int64_t> flow(topology.vertex_count());
  for (int i = 0; i < topology.link_count(); ++i)
    flow.add_arc(topology.link(i).from, topology.link(i).to, network.capacity[at(i)]);
  flow.finish();
  Marks best = marks_of(topology, SwitchAbsorber(network).grow({source}));
  std::int64_t least = network.capacity_out_of(best);
  for (const int sink : sinks) {
    if (sink == source) continue;
    const std::int64_t found = flow.solve(source, sink, least);
    if (found >= least) continue;
    least = found;
    best = first_of(flow.source_side(source), topology.vertices().size());
  }
  return best;
}

SwitchAbsorber::SwitchAbsorber(const Network& network)
    : network_(network),
      out_(network.topology->vertices().size(), 0),
      saving_(out_.size(), 0),
      inside_(out_.size(), 0) {
  for (int i = 0; i < network.topology->link_count(); ++i)
    out_[at(network.topology->link(i).from)] += network.capacity[at(i)];
}

std::vector<int> SwitchAbsorber::grow(const std::vector<int>& gpus) {
  const Topology& topology = *network_.topology;
  for (const int gpu : gpus) add(gpu);
  for (std::size_t next = 0; next < set_.size(); ++next)
    for (const int link : topology.out_links(set_[next])) {
      const int beyond = topology.link(link).to;
      const bool grows = out_[at(beyond)] > saving_[at(beyond)];
      if (!inside_[at(beyond)] && topology.vertex(beyond).kind != VertexKind::gpu && !grows) add(beyond);
    }
  for (const int vertex : set_) inside_[at(vertex)] = 0;
  for (const int vertex : touched_) saving_[at(vertex)] = 0;
  touched_.clear();
  std::vector<int> grown = std::move(set_);
  set_.clear();
  std::sort(grown.begin(), grown.end());
  return grown;
}

void SwitchAbsorber::add(int vertex) {
  const Topology& topology = *network_.topology;
  inside_[at(vertex)] = 1;
  set_.push_back(vertex);
  const auto save = [&](int beside, int link) {
    saving_[at(beside)] += network_.capacity[at(link)];
    touched_.push_back(beside);
  };
  for (const int link : topology.out_links(vertex)) save(topology.link(link).to, link);
  for (const int link : topology.in_links(vertex)) save(topology.link(link).from, link);
}

std::vector<int> list_of(const Marks& inside) {
  std::vector<int> list;
  for (std::size_t v = 0; v < inside.size(); ++v)
    if (inside[v]) list.push_back(static_cast<int>(v));
  return list;
}

Marks marks_of(const Topology& topology, const std::vector<int>& vertices) {
  Marks marks(topology.vertices().size(), 0);
  for (const int vertex : vertices) marks[at(vertex)] = 1;
  return marks;
}

}  // namespace tutti
