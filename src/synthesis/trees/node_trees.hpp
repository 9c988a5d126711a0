// Trees of nodes for a broadcast, and which of K colours each of their edges has. Pure functions.
#pragma once

#include <vector>

namespace tutti {

struct NodeEdge {
  int tree = 0;
  int from = 0;
  int to = 0;
  int colour = 0;
};

/// `trees` trees from node 0 to all others. Every node has at most `trees` edges out in all, and where it has some in
/// one tree, none or few in the others. Of the edges that leave a node, and of those that enter it, no two have the
/// same colour; there are as many colours as trees. By tree, parents before their children.
std::vector<NodeEdge> make_node_trees(int nodes, int trees);

}  // namespace tutti
