#include "synthesis/trees/tree_growth.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "synthesis/trees/sink_flow.hpp"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class TreeGrowth {
 public:
  TreeGrowth(int ranks, const std::vector<RankLink>& links, std::vector<std::int64_t> capacities,
             const std::vector<TreeDemand>& demands, Preference preference)
      : ranks_(ranks),
        preference_(preference),
        links_(links),
        capacities_(std::move(capacities)),
        out_(at(ranks)),
        flow_(ranks, links, capacities_, trees_) {
    for (std::size_t i = 0; i < links.size(); ++i) out_[at(links[i].from)].push_back(static_cast<int>(i));
    for (const TreeDemand& demand : demands) {
      GrowingTree tree{demand.root, demand.copies, {}, {demand.root}, std::vector<int>(at(ranks), -1), {}};
      tree.depth[at(demand.root)] = 0;
      trees_.push_back(std::move(tree));
      turns_.emplace_back();
    }
  }

  Status run(Deadline deadline) {
    for (int depth = 1; !all_span(); ++depth) {
      if (depth == ranks_) return fail(ErrorCode::internal, "trees got stuck: the capacities do not carry them");
      for (std::size_t i = 0; i < trees_.size(); ++i) prepare(static_cast<int>(i), depth);
      // One link for each tree in turn, so that none takes what all want.
      for (bool grown = true; grown;) {
        grown = false;
        for (std::size_t i = 0; i < trees_.size(); ++i) grown |= take_next(static_cast<int>(i), depth);
        if (deadline.passed())
          return fail(ErrorCode::timed_out, fmt::format("packing trees: out of time at depth {}", depth));
      }
    }
    return {};
  }

  std::vector<GrownTree> result() && {
    std::vector<GrownTree> grown;
    for (GrowingTree& tree : trees_)
      grown.push_back({tree.root, tree.copies, std::move(tree.links), std::move(tree.depth)});
    return grown;
  }

 private:
  /// Links a tree may take to its next level. Each is asked for once: what cannot be taken now never can, since the
  /// sets of ranks that need all their links out stay so.
  struct NextLinks {
    std::vector<int> candidates;
    std::size_t next = 0;
  };

  bool all_span() const {
    return std::all_of(trees_.begin(), trees_.end(),
                       [&](const GrowingTree& tree) { return static_cast<int>(tree.members.size()) == ranks_; });
  }

  void prepare(int index, int depth) {
    const GrowingTree& tree = trees_[at(index)];
    NextLinks& turn = turns_[at(index)];
    turn = {};
    std::vector<int> ways(at(ranks_), 0);
    for (const int member : tree.members)
      if (tree.depth[at(member)] == depth - 1)
        for (const int link : out_[at(member)])
          if (capacities_[at(link)] > 0 && !tree.has(links_[at(link)].to)) {
            turn.candidates.push_back(link);
            ++ways[at(links_[at(link)].to)];
          }
    std::vector<int> last_step(at(ranks_), 0);  // towards each member
    for (const int link : tree.links) last_step[at(links_[at(link)].to)] = step_of(link);
    const auto rank_of = [&](int link) -> std::int64_t {
      if (preference_ == Preference::fewest_ways) return ways[at(links_[at(link)].to)];
      if (preference_ == Preference::straight_on) return last_step[at(links_[at(link)].from)] == step_of(link) ? 0 : 1;
      return 0;
    };
    std::stable_sort(turn.candidates.begin(), turn.candidates.end(), [&](int a, int b) {
      return std::pair(-capacities_[at(a)], rank_of(a)) < std::pair(-capacities_[at(b)], rank_of(b));
    });
  }

  int step_of(int link) const { return (links_[at(link)].to - links_[at(link)].from + ranks_) % ranks_; }

  bool take_next(int index, int depth) {
    while (turns_[at(index)].next < turns_[at(index)].candidates.size()) {
      const int link = turns_[at(index)].candidates[turns_[at(index)].next++];
      if (trees_[at(index)].has(links_[at(link)].to)) continue;
      const std::int64_t copies = allowed(index, link);
      if (copies == 0) continue;
      take(index, link, copies, depth);
      return true;
    }
    return false;
  }

  /// How many copies of the tree may take the link.
  std::int64_t allowed(int index, int link) {
    const std::int64_t most = std::min(trees_[at(index)].copies, capacities_[at(link)]);
    if (most == 0) return 0;
    return most - flow_.shortfall(index, link, most);
  }

  void take(int index, int link, std::int64_t copies, int depth) {
    if (copies < trees_[at(index)].copies) {
      GrowingTree rest = trees_[at(index)];
      rest.copies -= copies;
      rest.split_off.clear();
      trees_[at(index)].copies = copies;
      trees_[at(index)].split_off.push_back(static_cast<int>(trees_.size()));
      trees_.push_back(std::move(rest));
      turns_.push_back(NextLinks(turns_[at(index)]));
    }
    GrowingTree& tree = trees_[at(index)];
    const int joins = links_[at(link)].to;
    tree.links.push_back(link);
    tree.members.push_back(joins);
    tree.depth[at(joins)] = depth;
    capacities_[at(link)] -= copies;
  }

  int ranks_;
  Preference preference_;
  const std::vector<RankLink>& links_;
  std::vector<std::int64_t> capacities_;
  std::vector<std::vector<int>> out_;  // [rank] links
  std::vector<GrowingTree> trees_;
  std::vector<NextLinks> turns_;  // [tree]
  SinkFlow flow_;
};

}  // namespace

Result<std::vector<GrownTree>> grow_trees(int ranks, const std::vector<RankLink>& links,
                                          std::vector<std::int64_t> capacities, const std::vector<TreeDemand>& demands,
                                          Preference preference, Deadline deadline) {
  TreeGrowth growth(ranks, links, std::move(capacities), demands, preference);
  if (Status status = growth.run(deadline); !status) return tl::unexpected(status.error());
  return std::move(growth).result();
}

}  // namespace tutti
