// Grows the trees of one rank of each orbit, while every other rank does the same, moved: so a link's load is known
// from how often its orbit is used, and the graph needs no more than one rank's links.
//
// Growth is a timetable at once: whenever the links of an orbit are free, they carry the tree to the next rank it
// lacks; from the shallowest rank that has it, so that trees stay low, and first to where no faster link leads, so that
// slow links are not spent on what faster ones can do. No orbit is used more often than its budget. Pure functions.
#pragma once

#include <vector>

#include "synthesis/trees/find_translations.hpp"
#include "synthesis/trees/rank_graph.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// What all ranks of an orbit have in common: the links that leave its representative, by orbit.
struct LinkClass {
  int from = 0;  // a representative
  int to = 0;
  int channel = 0;
  std::vector<int> orbits;  // of the links of its route
};

struct SymmetricGraph {
  Translations group;
  int ranks = 0;
  std::vector<int> representatives;  // one rank of each orbit
  std::vector<LinkClass> classes;    // grouped by `from`
  std::vector<double> time_of_use;   // [orbit] that its links take when every rank uses the class once, for one byte
};

SymmetricGraph make_symmetric_graph(Routes& routes, const FoundTranslations& found, Wiring wiring);

struct SymmetricHop {
  int tree = 0;  // of representatives * copies: tree / copies is the representative's index
  int from = 0;
  int to = 0;
  int channel = 0;
  double begin = 0;
};

struct SymmetricGrowth {
  std::vector<SymmetricHop> hops;  // in order of beginning
  double time = 0;                 // that the busiest links take, for one byte a tree
  int height = 0;
};

/// `copies` trees for each representative; no orbit takes more than `most_time`. Fails with unsupported where they get
/// stuck.
Result<SymmetricGrowth> grow_symmetric(const SymmetricGraph& graph, int copies, double most_time);

}  // namespace tutti
