// Lower bounds on the time of a collective on a topology, each with its certificate (certificate.hpp).
//
// What limits a collective differs with the size, so a bound is the largest of several lines latency + rate * bytes:
// one for large sizes, by the tightest cut, partition or lengths, and one for small sizes, by the farthest pair.
//   all_gather, reduce_scatter, gather, scatter   exact: the tightest cut (time per byte no algorithm can beat, and
//                                                 trees can attain where switches only pass on)
//   broadcast, reduce                             exact up to 4,096 ranks: the least maximum flow from or to the root
//   all_reduce                                    the best of partitions (ranks, nodes, images of the tightest cut) and
//                                                 of cuts; near the tightest partition where there are no switches
//   all_to_all                                    lengths by column generation or multiplicative weights: within 0.1 %
//                                                 of the optimum or as near as the time given allows
// Symmetries are found first and verified; what is the same for two ranks is computed for one. Pure functions.
#pragma once

#include <vector>

#include "bound/certificate.hpp"
#include "program/program.hpp"
#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct BoundOptions {
  bool use_symmetry = true;  // false: every rank is computed, as if no two were alike
  double seconds = 3;        // for the search of an all-to-all
};

struct Bound {
  std::vector<Certificate> certificates;  // none for one rank, which has nothing to send
  /// All-to-all: an upper limit on what any lengths can prove, seconds per byte; 0 where none is known. The certificate
  /// with the largest rate is that close to the best there is.
  double rate_limit = 0;

  /// The largest time any certificate proves.
  double seconds(double bytes) const;
  /// The certificate with the largest rate: what counts for large sizes. There must be one.
  const Certificate& for_large() const;
};

/// Fails for an invalid topology, a collective without bounds (has_bounds), a root out of range.
Result<Bound> bound(const Topology& topology, Collective collective, int root = 0, const BoundOptions& options = {});

}  // namespace tutti
