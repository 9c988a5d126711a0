#include "bound/spanning_trees.hpp"

#include <algorithm>
#include <utility>

#include "topology/disjoint_sets.hpp"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr int kNowhere = -1;

/// A forest, hung up at roots so that ways between vertices are found by going up.
class Forest {
 public:
  struct Branch {
    int to = 0;
    int copy = 0;
  };

  explicit Forest(int vertices)
      : branches_(at(vertices)), up_(at(vertices)), depth_(at(vertices)), root_(at(vertices)) {
    hang();
  }

  bool joins(int one, int other) const { return root_[at(one)] == root_[at(other)]; }

  template <typename Visit>
  void for_each_between(int one, int other, Visit&& visit) const {
    while (one != other) {
      int& lower = depth_[at(one)] >= depth_[at(other)] ? one : other;
      visit(up_[at(lower)].copy);
      lower = up_[at(lower)].to;
    }
  }

  void add(int one, int other, int copy) {
    branches_[at(one)].push_back({other, copy});
    branches_[at(other)].push_back({one, copy});
  }
  void remove(int one, int other, int copy) {
    for (const int vertex : {one, other})
      std::erase_if(branches_[at(vertex)], [&](const Branch& branch) { return branch.copy == copy; });
  }
  /// To be called after changes, before the next question.
  void hang() {
    std::fill(root_.begin(), root_.end(), kNowhere);
    for (int root = 0; root < static_cast<int>(root_.size()); ++root)
      if (root_[at(root)] == kNowhere) hang_from(root);
  }

 private:
  void hang_from(int root) {
    root_[at(root)] = root;
    depth_[at(root)] = 0;
    std::vector<int> order{root};
    for (std::size_t next = 0; next < order.size(); ++next)
      for (const Branch& branch : branches_[at(order[next])]) {
        if (root_[at(branch.to)] != kNowhere) continue;
        root_[at(branch.to)] = root;
        depth_[at(branch.to)] = depth_[at(order[next])] + 1;
        up_[at(branch.to)] = {order[next], branch.copy};
        order.push_back(branch.to);
      }
  }

  std::vector<std::vector<Branch>> branches_;
  std::vector<Branch> up_;
  std::vector<int> depth_, root_;
};

class Packer {
 public:
  Packer(int vertices, const std::vector<SharedEdge>& edges, int trees)
      : edges_(edges), forests_(at(trees), Forest(vertices)), clumps_(vertices), missing_((vertices - 1) * trees) {
    // An edge's copies come one after the other, so that trees take turns at edges that come first; one more than there
    // are trees finds no place, and shows that.
    for (std::size_t edge = 0; edge < edges.size(); ++edge)
      copies_.insert(copies_.end(), static_cast<std::size_t>(std::min<std::int64_t>(edges[edge].copies, trees + 1)),
                     {static_cast<int>(edge), kNowhere});
    reached_by_.resize(copies_.size(), kNowhere);
  }

  std::optional<SpanningTrees> pack(Deadline deadline) {
    for (int copy = 0; copy < static_cast<int>(copies_.size()) && missing_ > 0; ++copy) {
      if (deadline.passed()) return std::nullopt;
      const SharedEdge& edge = edge_of(copy);
      if (edge.one != edge.other && clumps_.find(edge.one) != clumps_.find(edge.other)) place(copy);
    }
    SpanningTrees packed;
    if (missing_ > 0) {
      packed.party_of = clumps_.numbers();
      return packed;
    }
    packed.trees.resize(forests_.size());
    for (const EdgeCopy& copy : copies_)
      if (copy.forest != kNowhere) packed.trees[at(copy.forest)].push_back(copy.edge);
    return packed;
  }

 private:
  struct EdgeCopy {
    int edge = 0;
    int forest = kNowhere;
  };

  const SharedEdge& edge_of(int copy) const { return edges_[at(copies_[at(copy)].edge)]; }

  /// Looks for the shortest chain of exchanges: the copy takes the place of another in some forest, that of a third in
  /// another, and so on, until one finds a forest that it closes no circle in. Where there is none, all it came by are
  /// a clump.
  void place(int first) {
    std::vector<int> chain_ends{first};
    reached_by_[at(first)] = first;
    for (std::size_t next = 0; next < chain_ends.size(); ++next) {
      const int copy = chain_ends[next];
      const SharedEdge& edge = edge_of(copy);
      for (std::size_t turn = 0; turn < forests_.size(); ++turn) {
        const std::size_t index = (turn + at(first)) % forests_.size();
        if (copies_[at(copy)].forest == static_cast<int>(index)) continue;
        if (!forests_[index].joins(edge.one, edge.other)) {
          exchange_along(copy, static_cast<int>(index));
          return forget(chain_ends);
        }
        forests_[index].for_each_between(edge.one, edge.other, [&](int other) {
          if (reached_by_[at(other)] != kNowhere) return;
          reached_by_[at(other)] = copy;
          chain_ends.push_back(other);
        });
      }
    }
    for (const int copy : chain_ends) clumps_.unite(edge_of(copy).one, edge_of(copy).other);
    forget(chain_ends);
  }

  void exchange_along(int copy, int forest) {
    for (bool first = false; !first;) {
      const int left = copies_[at(copy)].forest;
      const SharedEdge& edge = edge_of(copy);
      if (left != kNowhere) forests_[at(left)].remove(edge.one, edge.other, copy);
      forests_[at(forest)].add(edge.one, edge.other, copy);
      forests_[at(forest)].hang();
      copies_[at(copy)].forest = forest;
      first = reached_by_[at(copy)] == copy;
      copy = reached_by_[at(copy)];
      forest = left;
    }
    --missing_;
  }

  void forget(const std::vector<int>& reached) {
    for (const int copy : reached) reached_by_[at(copy)] = kNowhere;
  }

  const std::vector<SharedEdge>& edges_;
  std::vector<EdgeCopy> copies_;
  std::vector<int> reached_by_;  // [copy] in the search at hand: the copy that would take its place; the first: itself
  std::vector<Forest> forests_;
  DisjointSets clumps_;  // vertices that every forest connects: no edge between them can be added any more
  int missing_;          // edges in all trees
};

}  // namespace

std::optional<SpanningTrees> pack_spanning_trees(int vertices, const std::vector<SharedEdge>& edges, int trees,
                                                 Deadline deadline) {
  return Packer(vertices, edges, trees).pack(deadline);
}

}  // namespace tutti
