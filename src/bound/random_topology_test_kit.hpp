// What tests of synthesis share: random topologies, and bounds by trying every cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

/// A random graph in which every GPU has four neighbours, by links of 25 or 50 GB/s: two rings through all GPUs that
/// share no link. examples/topologies/irregular80.json is the one of 80 GPUs and seed 1.
inline Topology irregular_topology(int gpus, unsigned seed) {
  std::mt19937 random(seed);
  Topology topology("irregular" + std::to_string(gpus));
  for (int i = 0; i < gpus; ++i) topology.add_gpu("gpu" + std::to_string(i), 0);
  std::vector<int> order(static_cast<std::size_t>(gpus));
  for (int i = 0; i < gpus; ++i) order[static_cast<std::size_t>(i)] = i;
  std::set<std::pair<int, int>> joined;
  for (int ring = 0; ring < 2;) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::pair<int, int>> pairs;
    for (std::size_t i = 0; i < order.size(); ++i)
      pairs.push_back(std::minmax({order[i], order[(i + 1) % order.size()]}));
    if (std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) { return joined.count(pair) > 0; })) continue;
    for (const auto& [one, other] : pairs) {
      const std::int64_t links = 1 + static_cast<std::int64_t>(random() % 2);
      topology.add_duplex({one, other, 25'000'000'000 * links, Rational(7, 10'000'000), "link"});
    }
    joined.insert(pairs.begin(), pairs.end());
    ++ring;
  }
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
