// Trees of an all_gather on a topology whose translations (translations.hpp) move ranks to one another: those of one
// rank of each orbit, and how they are moved. A few kilobytes say what 16,384 ranks do.
// Plain values; pure functions.
#pragma once

#include "synthesis/trees/packed_trees.hpp"
#include "synthesis/trees/symmetric_growth.hpp"

namespace tutti {

struct SymmetricTrees {
  Translations group;
  int ranks = 0;
  std::vector<int> representatives;  // whose trees these are
  int copies = 1;                    // trees for each rank
  std::vector<SymmetricHop> hops;    // of the representatives' trees, in order of time
  double rate = 0;                   // as PackedTrees'
  double loss = 0;                   // of time against the tightest cut, as a share
  int height = 0;
};

struct SymmetricOptions {
  int most_trees = 16;    // for each rank
  int least_order = 2;    // of the group: with fewer translations, the search is left to others
  double enough = 0.003;  // a loss to be content with
};

/// Fails with unsupported where there are too few translations or the trees always get stuck, and with timed_out.
Result<SymmetricTrees> find_symmetric_trees(Routes& routes, const SymmetricOptions& options, double seconds_limit);

/// All ranks' transfers, and the rate from the load of every link.
PackedTrees expand(Routes& routes, const SymmetricTrees& trees);

}  // namespace tutti
