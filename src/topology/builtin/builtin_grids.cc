// Regular graphs of GPUs with links between them and nothing else. The standard figures
// are round ones, a single NVLink of NDv2: results on grids are told relative to the bandwidth of a link.
#include <bit>
#include <numeric>

#include "documents/json_value.hpp"
#include "topology/builtin/builtin_parts.hpp"

namespace tutti {
namespace {

/// What every link of a grid is.
Link link_of(const BuiltinValues& values) {
  return {0, 0, values.bandwidth("bandwidth"), values.latency("latency"), "link"};
}

void connect(Topology& topology, Link link, int from, int to) {
  link.from = from;
  link.to = to;
  topology.add_duplex(link);
}

void add_ranks(Topology& topology, int count) {
  for (int rank = 0; rank < count; ++rank) topology.add_gpu("gpu" + std::to_string(rank), 0);
}

/// Numbered with the last coordinate running fastest. Where the ends meet, a dimension of two has one link, not two.
Topology make_grid(const std::vector<int>& sizes, const Link& link, bool ends_meet) {
  Topology topology;
  const int count = std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>());
  add_ranks(topology, count);
  int stride = count;
  for (const int size : sizes) {
    stride /= size;
    for (int rank = 0; rank < count; ++rank) {
      const int place = rank / stride % size;
      if (place + 1 < size) connect(topology, link, rank, rank + stride);
      if (place + 1 == size && ends_meet && size > 2) connect(topology, link, rank, rank - place * stride);
    }
  }
  return topology;
}

}  // namespace

Topology make_torus2d(const BuiltinValues& values) {
  return make_grid(values.sizes("size", 2, 2), link_of(values), true);
}

Topology make_torus3d(const BuiltinValues& values) {
  return make_grid(values.sizes("size", 3, 3), link_of(values), true);
}

Topology make_mesh(const BuiltinValues& values) {
  return make_grid(values.sizes("size", 1, 3), link_of(values), false);
}

Topology make_ring(const BuiltinValues& values) {
  return make_grid({values.integer("size", 2, kMostRanks)}, link_of(values), true);
}

Topology make_hypercube(const BuiltinValues& values) {
  const int count = values.integer("size", 2, kMostRanks);
  if (!std::has_single_bit(static_cast<unsigned>(count)))
    throw InputError("size: '" + std::to_string(count) + "' is out of place; expected a power of two");
  Topology topology;
  add_ranks(topology, count);
  const Link link = link_of(values);
  for (int rank = 0; rank < count; ++rank)
    for (int bit = 1; bit < count; bit *= 2)
      if ((rank & bit) == 0) connect(topology, link, rank, rank | bit);
  return topology;
}

}  // namespace tutti
