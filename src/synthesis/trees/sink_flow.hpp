// Whether what is left of the capacities still carries every growing tree to a rank, asked again and again while trees
// grow.
//
// For each rank the last answer is kept as paths, from a vertex of each tree to the rank. Growth takes capacity away
// and makes trees larger; so most paths hold the next time, and only those that broke are found anew, by augmenting.
// Not to be shared between threads.
#pragma once

#include <cstdint>
#include <vector>

#include "synthesis/trees/rank_graph.hpp"

namespace tutti {

/// A tree, or several equal ones, on its way to span all ranks.
struct GrowingTree {
  int root = 0;
  std::int64_t copies = 1;
  std::vector<int> links;      // taken, in order
  std::vector<int> members;    // ranks, in order of joining
  std::vector<int> depth;      // [rank]; -1: no member yet
  std::vector<int> split_off;  // trees that were copies of this one until they took other links

  bool has(int rank) const { return depth[static_cast<std::size_t>(rank)] >= 0; }
};

class SinkFlow {
 public:
  /// Refers to all three, which the owner changes between calls: capacities only shrink, members only join.
  SinkFlow(int ranks, const std::vector<RankLink>& links, const std::vector<std::int64_t>& capacities,
           const std::vector<GrowingTree>& trees);

  /// How much is missing at the link's target, if `copies` copies of the tree took the link there. 0: they may.
  std::int64_t shortfall(int tree, int link, std::int64_t copies);

 private:
  struct Path {
    int tree = 0;
    std::int64_t amount = 0;
    std::vector<int> links;  // from a member of the tree to the sink
  };
  /// An amount of a tree that starts at one of its members.
  struct Supply {
    int tree = 0;
    int rank = 0;
    std::int64_t amount = 0;
  };
  /// How the search came to a rank: along a link, back along one, or from a tree it is a member of.
  enum class SearchStepKind : std::uint8_t { along, back, member };
  struct SearchStep {
    SearchStepKind kind = SearchStepKind::member;
    int index = 0;
  };

  void set_needs(int tree, std::int64_t copies);
  void load(const Path& path, int tree);
  std::int64_t room(int link) const;
  void add_supply(int tree, int rank, std::int64_t amount);
  bool augment();
  bool search();
  bool reach(int rank, SearchStep step);
  bool reach_members(int tree);
  void push_found();
  void save_and_clear();
  Path walk(Supply& supply);
  int cut_cycle(Path& path, int rank);
  void change_flow(int link, std::int64_t amount);

  const std::vector<RankLink>& links_;
  const std::vector<std::int64_t>& capacities_;
  const std::vector<GrowingTree>& trees_;
  std::vector<std::vector<int>> out_, in_;  // [rank] links
  std::vector<std::vector<Path>> paths_;    // [sink]

  // The flow of one question.
  int sink_ = 0;
  int taken_ = 0;  // the link asked for, and how much of it is gone
  std::int64_t taken_copies_ = 0;
  std::vector<std::int64_t> flow_;   // [link]
  std::vector<int> touched_;         // links with a flow, now or before
  std::vector<std::int64_t> needs_;  // [tree] not carried yet
  std::vector<Supply> supplies_;
  std::vector<std::vector<int>> supplies_at_;  // [rank], into supplies_

  // The search for an augmenting path.
  int round_ = 0;
  std::vector<int> rank_seen_, tree_seen_;  // in which round
  std::vector<SearchStep> came_by_;         // [rank]
  std::vector<int> tree_came_by_;           // [tree] the supply that was given back; -1: it is in need
  std::vector<int> queue_;
  std::vector<std::pair<SearchStep, int>> found_;  // steps back from the sink, and the rank each led to
};

}  // namespace tutti
