// Which way each chunk of an all-to-all goes, so that the busiest link carries as little as possible: an integral
// concurrent flow. Every chunk starts on a shortest path; then, source after source, chunks move to the paths that are
// cheapest now, where links cost exponentially more the fuller they are, and more steeply in every phase. A chunk moves
// only where that lowers the sum of all costs, so the search is a descent; it ends near the optimum of the linear
// program (within 1 % on irregular graphs of 80 GPUs), and needs no rounding after it.
//
// Where a group of symmetries moves one source to all others, one source is routed, and a resource is a class of links.
// Deterministic but for the clock.
#pragma once

#include <vector>

#include "synthesis/exchange/hops.hpp"

namespace tutti {

/// What chunks compete for: a link, or links that symmetries map to one another.
struct Resources {
  std::vector<int> of_link;  // [link] = resource
  std::vector<double>
      capacity;  // [resource] bytes per second, of all its links divided by the number of sources' images

  static Resources of_links(const Topology& topology);
};

struct PathProblem {
  const HopTable* hops = nullptr;
  Resources resources;
  std::vector<int> sources;   // ranks
  int chunks = 1;             // per block
  double enough = 0;          // seconds per byte of a rank's buffer at which the search may stop; 0: search on
  bool inside_nodes = false;  // blocks for ranks of other nodes do not count
};

struct FoundPaths {
  std::vector<Path> paths;  // [(source's index * ranks + target) * chunks + piece]; empty where the two are one
  double rate = 0;          // seconds per byte of a rank's buffer that the busiest resource takes
  int unreached_from = -1;  // where there is no path: between which ranks
  int unreached_to = -1;
};

FoundPaths find_paths(const PathProblem& search, double seconds);

}  // namespace tutti
