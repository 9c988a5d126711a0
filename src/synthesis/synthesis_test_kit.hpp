// What tests of bounds share: random topologies, and bounds by trying every cut.
#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "program/program.hpp"
#include "topology/topology.hpp"

namespace tutti {

/// GPUs and switches, strongly connected by a ring, with random further links; some one way only.
inline Topology random_topology(std::mt19937& random, int gpus, int switches) {
  const auto draw = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  Topology topology("random");
  for (int i = 0; i < gpus; ++i) topology.add_gpu("g" + std::to_string(i), draw(2));
  for (int i = 0; i < switches; ++i) topology.add_switch("s" + std::to_string(i), kSharedNode);
  const int count = gpus + switches;
  std::vector<int> order(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
  std::shuffle(order.begin(), order.end(), random);
  const auto link = [&](int from, int to) {
    topology.add_link({from, to, Rational(1 + draw(9), 1 + draw(3)), Rational(draw(5), 1000), "link"});
  };
  for (int i = 0; i < count; ++i)
    link(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>((i + 1) % count)]);
  for (int i = 0; i < count; ++i)
    if (const int from = draw(count), to = draw(count); from != to) link(from, to);
  return topology;
}

/// The largest rate any cut proves, by trying all sets of vertices.
inline Rational best_cut_by_trying_all(const Topology& topology, Collective collective, int root) {
  const int count = topology.vertex_count();
  Rational best;
  for (unsigned set = 1; set + 1 < (1U << count); ++set) {
    const auto inside = [&](int vertex) { return ((set >> vertex) & 1U) != 0; };
    std::int64_t in = 0, out = 0;
    for (const int gpu : topology.gpus()) ++(inside(gpu) ? in : out);
    if (in == 0 || out == 0) continue;
    Rational capacity;
    for (const Link& link : topology.links())
      if (inside(link.from) && !inside(link.to)) capacity += link.capacity;
    const bool root_inside = inside(topology.gpu(root));
    Rational share;
    if (collective == Collective::all_gather || (collective == Collective::gather && !root_inside))
      share = Rational(in, topology.ranks());
    if (collective == Collective::reduce_scatter || (collective == Collective::scatter && root_inside))
      share = Rational(out, topology.ranks());
    if ((collective == Collective::broadcast && root_inside) || (collective == Collective::reduce && !root_inside) ||
        collective == Collective::all_reduce)
      share = 1;
    if (collective == Collective::all_to_all) share = Rational(in * out, topology.ranks());
    best = std::max(best, share / capacity);
  }
  return best;
}

}  // namespace tutti
