#include "synthesis/trees/node_trees.hpp"

#include <algorithm>
#include <deque>

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// A node that forwards in a tree, and to how many.
struct Forwarder {
  int node = 0;
  int children = 0;
};

/// Gives every tree forwarders with children for all nodes but the root and the one it sends to; each node has
/// `trees` children to give, so that most forward in one tree only.
std::vector<std::vector<Forwarder>> choose_forwarders(int nodes, int trees) {
  std::vector<std::vector<Forwarder>> chosen(at(trees));
  int node = 1, left = trees;
  for (auto& forwarders : chosen) {
    for (int wanted = nodes - 2; wanted > 0;) {
      const int given = std::min(wanted, left);
      forwarders.push_back({node, given});
      wanted -= given;
      left -= given;
      if (left > 0) continue;
      ++node;
      left = trees;
    }
    std::stable_sort(forwarders.begin(), forwarders.end(),
                     [](const Forwarder& a, const Forwarder& b) { return a.children > b.children; });
  }
  return chosen;
}

/// Forwarders first, each under the first that has children to give, so that the tree is as low as can be.
void build_tree(int nodes, int tree, const std::vector<Forwarder>& forwarders, std::vector<NodeEdge>& edges) {
  std::vector<int> children(at(nodes), 0);
  std::vector<int> order;
  for (const Forwarder& forwarder : forwarders) {
    children[at(forwarder.node)] = forwarder.children;
    order.push_back(forwarder.node);
  }
  // Leaves start elsewhere in every tree, so that no pair of nodes is used more than others.
  for (int i = 0; i < nodes - 1; ++i)
    if (const int node = 1 + (i + tree) % (nodes - 1); children[at(node)] == 0) order.push_back(node);
  std::deque<int> parents;
  for (const int node : order) {
    const int parent = parents.empty() ? 0 : parents.front();
    edges.push_back({tree, parent, node, 0});
    if (parent != 0 && --children[at(parent)] == 0) parents.pop_front();
    if (children[at(node)] > 0) parents.push_back(node);
  }
}

/// Koenig's theorem, as an algorithm: where no colour is free at both ends, two colours are exchanged along a path.
class Colouring {
 public:
  Colouring(int nodes, int colours, std::vector<NodeEdge>& edges)
      : colours_(colours),
        edges_(edges),
        out_(at(nodes), std::vector<int>(at(colours), kNone)),
        in_(at(nodes), std::vector<int>(at(colours), kNone)) {}

  void run() {
    for (std::size_t i = 0; i < edges_.size(); ++i) colour(static_cast<int>(i));
  }

 private:
  static constexpr int kNone = -1;

  int free_at(const std::vector<int>& used, int first) const {
    for (int i = 0; i < colours_; ++i)
      if (const int colour = (first + i) % colours_; used[at(colour)] == kNone) return colour;
    return kNone;
  }

  void colour(int index) {
    const NodeEdge& edge = edges_[at(index)];
    const int first = edge.tree;
    const int at_sender = free_at(out_[at(edge.from)], first), at_receiver = free_at(in_[at(edge.to)], first);
    if (in_[at(edge.to)][at(at_sender)] != kNone) exchange(edge.to, at_sender, at_receiver);
    set(index, at_sender);
  }

  /// Along the path of edges of the two colours that begins at the receiver; it cannot come to the sender.
  void exchange(int receiver, int one, int other) {
    std::vector<int> path;
    bool entering = true;
    for (int node = receiver, colour = one;; entering = !entering, colour = colour == one ? other : one) {
      const int edge = (entering ? in_ : out_)[at(node)][at(colour)];
      if (edge == kNone) break;
      path.push_back(edge);
      node = entering ? edges_[at(edge)].from : edges_[at(edge)].to;
    }
    for (const int edge : path) unset(edge);
    for (const int edge : path) set(edge, edges_[at(edge)].colour == one ? other : one);
  }

  void set(int index, int colour) {
    NodeEdge& edge = edges_[at(index)];
    edge.colour = colour;
    out_[at(edge.from)][at(colour)] = in_[at(edge.to)][at(colour)] = index;
  }

  void unset(int index) {
    const NodeEdge& edge = edges_[at(index)];
    out_[at(edge.from)][at(edge.colour)] = in_[at(edge.to)][at(edge.colour)] = kNone;
  }

  int colours_;
  std::vector<NodeEdge>& edges_;
  std::vector<std::vector<int>> out_, in_;  // [node][colour] edge
};

}  // namespace

std::vector<NodeEdge> make_node_trees(int nodes, int trees) {
  const auto forwarders = choose_forwarders(nodes, trees);
  std::vector<NodeEdge> edges;
  for (int tree = 0; tree < trees; ++tree) build_tree(nodes, tree, forwarders[at(tree)], edges);
  Colouring(nodes, trees, edges).run();
  return edges;
}

}  // namespace tutti
