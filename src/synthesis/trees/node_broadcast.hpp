// Trees of a broadcast on a machine of equal nodes around a fabric: trees of nodes first, then of GPUs inside each
// node.
//
// With K trees, a node that forwards in one of them to K others forwards in no other (double binary trees, for any K):
// so every node sends each byte about once, which is all that its NICs can do in the time of the bound, and trees of a
// thousand nodes are three or four nodes high. Edges of the node trees are coloured so that each NIC sends and receives
// as much as the others. Pure functions.
#pragma once

#include "synthesis/trees/tree_growth.hpp"

namespace tutti {

struct NodeBroadcast {
  std::vector<RankLink> links;  // those the trees use
  std::vector<GrownTree> trees;
};

/// `most_time`: seconds that a link may take for a byte of each tree, all trees divided by their number; what exceeds
/// it is used only where there is no other way. Fails with unsupported where there is only one node, nodes differ in
/// their number of GPUs, or GPUs with the same place in their nodes have no route to one another.
Result<NodeBroadcast> make_node_broadcast(Routes& routes, int root, int trees, double most_time);

}  // namespace tutti
