#include "synthesis/greedy/gather_paths.hpp"

#include <algorithm>
#include <map>

#include "bound/max_flow.hpp"

namespace tutti {

namespace {

constexpr int kHalvings = 24;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// What flows over each link when every rank sends `chunks` to the root in the least time.
class GatherPathFlow {
 public:
  GatherPathFlow(const TimedNetwork& network, const Topology& topology, int root, int chunks)
      : network_(network),
        topology_(topology),
        source_(topology.vertex_count()),
        sink_(topology.gpu(root)),
        flow_(topology.vertex_count() + 1),
        wanted_(static_cast<std::int64_t>(topology.ranks() - 1) * chunks) {
    for (const Link& link : topology.links()) flow_.add_arc(link.from, link.to, 0);
    for (const int gpu : topology.gpus())
      if (gpu != sink_) flow_.add_arc(source_, gpu, chunks);
    flow_.finish();
  }

  std::vector<std::int64_t> least_time() {
    Ticks enough = 0;
    for (int link = 0; link < topology_.link_count(); ++link) enough = std::max(enough, network_.busy(link));
    while (!fits(enough)) enough *= 2;
    Ticks too_little = 0;
    for (int i = 0; i < kHalvings && too_little + 1 < enough; ++i) {
      const Ticks middle = too_little + (enough - too_little) / 2;
      (fits(middle) ? enough : too_little) = middle;
    }
    fits(enough);
    std::vector<std::int64_t> result;
    for (int link = 0; link < topology_.link_count(); ++link) result.push_back(flow_.flow_on(link));
    return result;
  }

 private:
  bool fits(Ticks time) {
    for (int link = 0; link < topology_.link_count(); ++link)
      flow_.set_capacity(link, network_.is_used(link) ? time / network_.busy(link) : 0);
    return flow_.solve(source_, sink_) == wanted_;
  }

  const TimedNetwork& network_;
  const Topology& topology_;
  int source_, sink_;
  MaxFlow<std::int64_t> flow_;
  std::int64_t wanted_;
};

/// One unit's walk from a GPU to the next along what still flows; takes it off. -1: nothing flows on.
int follow(const Topology& topology, std::vector<std::int64_t>& flow, int vertex, int& outlet) {
  outlet = -1;
  do {
    const std::vector<int>& links = topology.out_links(vertex);
    const auto next = std::find_if(links.begin(), links.end(), [&](int link) { return flow[at(link)] > 0; });
    if (next == links.end()) return -1;
    --flow[at(*next)];
    if (outlet < 0) outlet = *next;
    vertex = topology.link(*next).to;
  } while (topology.vertex(vertex).kind != VertexKind::gpu);
  return topology.vertex(vertex).rank;
}

}  // namespace

std::vector<std::vector<int>> gather_paths(const TimedNetwork& network, const Topology& topology, int root,
                                           int chunks) {
  std::map<std::pair<int, int>, std::vector<WaySource>> ways;
  for (const Inlet& inlet : network.inlets())
    for (const WaySource& source : inlet.sources) ways[{network.way(source.way).from, inlet.to}].push_back(source);
  std::vector<std::int64_t> flow = GatherPathFlow(network, topology, root, chunks).least_time();
  std::vector<std::vector<int>> paths(at(topology.ranks() * chunks));
  for (int chunk = 0; chunk < topology.ranks() * chunks; ++chunk) {
    std::vector<int>& path = paths[at(chunk)];
    for (int rank = chunk / chunks; rank != root;) {
      int outlet = -1;
      const int next = follow(topology, flow, topology.gpu(rank), outlet);
      const auto found = ways.find({rank, next});
      if (next < 0 || (found == ways.end() && next != rank)) return {};
      // A flow may go round in circles; what comes back to a rank has not left it.
      const auto been = std::find_if(path.begin(), path.end(), [&](int way) { return network.way(way).from == next; });
      if (been != path.end()) {
        path.erase(been, path.end());
      } else if (next != rank) {
        const auto same = std::find_if(found->second.begin(), found->second.end(),
                                       [&](const WaySource& source) { return source.outlet == outlet; });
        path.push_back(same != found->second.end() ? same->way : found->second.front().way);
      }
      rank = next;
    }
  }
  return paths;
}

}  // namespace tutti
