// From trees to a schedule: pieces of the vector get trees, hops get routes and an order. Pure functions.
#pragma once

#include "synthesis/trees/packed_trees.hpp"
#include "synthesis/trees/tree_growth.hpp"

namespace tutti {

/// `shape.chunks` trees for each root: copies of a tree are neighbouring chunks. Where ranks are joined by several
/// links, each chunk takes the one that is least loaded.
PackedTrees make_tree_schedule(Routes& routes, const Shape& shape, const std::vector<RankLink>& links,
                               const std::vector<GrownTree>& trees);

}  // namespace tutti
