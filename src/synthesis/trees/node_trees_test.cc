#include "synthesis/trees/node_trees.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace tutti {
namespace {

TEST(NodeTrees, SpanAllNodesAndShareTheWork) {
  for (const int nodes : {2, 3, 4, 10, 17, 128})
    for (const int trees : {1, 2, 3, 8, 16}) {
      SCOPED_TRACE(testing::Message() << nodes << " nodes, " << trees << " trees");
      std::map<int, std::set<int>> reached;             // by tree
      std::map<int, int> out;                           // by node
      std::set<std::pair<int, int>> leaving, entering;  // node and colour
      for (const NodeEdge& edge : make_node_trees(nodes, trees)) {
        EXPECT_TRUE(edge.from == 0 || reached[edge.tree].count(edge.from) == 1) << "parents come first";
        EXPECT_TRUE(edge.to != 0 && reached[edge.tree].insert(edge.to).second);
        EXPECT_TRUE(leaving.emplace(edge.from, edge.colour).second);
        EXPECT_TRUE(entering.emplace(edge.to, edge.colour).second);
        EXPECT_LT(edge.colour, trees);
        ++out[edge.from];
      }
      for (int tree = 0; tree < trees; ++tree) EXPECT_EQ(static_cast<int>(reached[tree].size()), nodes - 1);
      for (const auto& [node, edges] : out) EXPECT_LE(edges, trees);
    }
}

TEST(NodeTrees, AreLow) {
  std::map<std::pair<int, int>, int> depth;
  int height = 0;
  for (const NodeEdge& edge : make_node_trees(128, 8))
    height = std::max(height, depth[{edge.tree, edge.to}] = depth[{edge.tree, edge.from}] + 1);
  EXPECT_LE(height, 4);  // one, eight, sixty-four, and the rest
}

}  // namespace
}  // namespace tutti
