#include "bound/spanning_trees.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace tutti {
namespace {

struct Graph {
  int vertices = 0;
  std::vector<SharedEdge> edges;
};

Graph random_graph(unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  Graph graph{2 + draw(6), {}};
  for (int i = draw(4 * graph.vertices); i >= 0; --i)
    graph.edges.push_back({draw(graph.vertices), draw(graph.vertices), draw(4)});
  return graph;
}

bool connects(const Graph& graph, const std::vector<int>& tree) {
  std::vector<int> party(static_cast<std::size_t>(graph.vertices));
  std::iota(party.begin(), party.end(), 0);
  for (const int edge : tree) {
    const SharedEdge& joined = graph.edges[static_cast<std::size_t>(edge)];
    const int gone = party[static_cast<std::size_t>(joined.one)], kept = party[static_cast<std::size_t>(joined.other)];
    std::replace(party.begin(), party.end(), gone, kept);
  }
  return std::adjacent_find(party.begin(), party.end(), std::not_equal_to<>()) == party.end();
}

std::int64_t copies_across(const Graph& graph, const std::vector<int>& party_of) {
  std::int64_t copies = 0;
  for (const SharedEdge& edge : graph.edges)
    if (party_of[static_cast<std::size_t>(edge.one)] != party_of[static_cast<std::size_t>(edge.other)])
      copies += edge.copies;
  return copies;
}

TEST(SpanningTrees, FitOrAPartitionShowsWhyNot) {
  int fitted = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed);
    const int trees = 1 + static_cast<int>(seed % 5);
    const auto packed = pack_spanning_trees(graph.vertices, graph.edges, trees, Deadline::in(10));
    ASSERT_TRUE(packed);
    if (packed->trees.empty()) {
      const int parties = *std::max_element(packed->party_of.begin(), packed->party_of.end()) + 1;
      EXPECT_LT(copies_across(graph, packed->party_of), trees * (parties - 1));
      continue;
    }
    ++fitted;
    ASSERT_EQ(packed->trees.size(), static_cast<std::size_t>(trees));
    std::vector<int> uses(graph.edges.size(), 0);
    for (const auto& tree : packed->trees) {
      EXPECT_EQ(tree.size(), static_cast<std::size_t>(graph.vertices - 1));
      EXPECT_TRUE(connects(graph, tree));
      for (const int edge : tree) ++uses[static_cast<std::size_t>(edge)];
    }
    for (std::size_t edge = 0; edge < uses.size(); ++edge) EXPECT_LE(uses[edge], graph.edges[edge].copies);
  }
  EXPECT_GT(fitted, 300);
  EXPECT_LT(fitted, 1700);
}

TEST(SpanningTrees, FillAGridToTheLastEdge) {
  Graph grid{80, {}};
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 10; ++column) {
      if (column < 9) grid.edges.push_back({row * 10 + column, row * 10 + column + 1, 9});
      if (row < 7) grid.edges.push_back({row * 10 + column, row * 10 + column + 10, 9});
    }
  EXPECT_EQ(pack_spanning_trees(80, grid.edges, 16, Deadline::in(10))->trees.size(), 16u);
  EXPECT_TRUE(pack_spanning_trees(80, grid.edges, 17, Deadline::in(10))->trees.empty());
}

TEST(SpanningTrees, StopAtTheDeadline) { EXPECT_FALSE(pack_spanning_trees(2, {{0, 1, 1}}, 1, Deadline::in(0))); }

}  // namespace
}  // namespace tutti
