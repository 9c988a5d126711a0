#include "synthesis/trees/tree_schedule.hpp"

#include <algorithm>

#include "synthesis/trees/hop_order.hpp"

namespace tutti {
namespace {

constexpr int kMostChannels = 16;  // so that programs may have a few instances, and engines limits

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class TreeSchedule {
 public:
  TreeSchedule(Routes& routes, const Shape& shape, const std::vector<RankLink>& links)
      : topology_(routes.topology()),
        period_(routes.period()),
        shape_(shape),
        links_(links),
        loads_(topology_.links().size(), 0),
        trees_on_(links.size(), 0) {
    next_chunk_.assign(at(shape.ranks), 0);
  }

  void add(const GrownTree& tree) {
    // Copies stay together where each of their hops has but one route.
    const bool together = std::all_of(tree.links.begin(), tree.links.end(),
                                      [&](int link) { return links_[at(link)].routes.size() == 1; });
    const int copies = static_cast<int>(tree.copies);
    for (int copy = 0; copy < copies; copy += together ? copies : 1) add_copies(tree, together ? copies : 1);
    packed_.height = std::max(packed_.height, *std::max_element(tree.depth.begin(), tree.depth.end()));
  }

  PackedTrees finish() {
    packed_.schedule.generator = "packed trees";
    packed_.schedule.shape = shape_;
    for (const int index : order_by_time(topology_, hops_))
      for (int copy = 0; copy < static_cast<int>(hops_[at(index)].amount); ++copy) {
        Transfer transfer = transfers_[at(index)];
        transfer.chunk += copy;
        packed_.schedule.transfers.push_back(transfer);
      }
    for (std::size_t link = 0; link < loads_.size(); ++link)
      packed_.rate = std::max(packed_.rate, loads_[link] / chunks_of(shape_) / capacity(static_cast<int>(link)));
    return std::move(packed_);
  }

 private:
  double capacity(int link) const { return topology_.link(link).capacity.value(); }

  void add_copies(const GrownTree& tree, int copies) {
    int& next = next_chunk_[at(tree.root)];
    const int chunk = (shape_.collective == Collective::broadcast ? 0 : tree.root * shape_.chunks) + next;
    next += copies;
    std::vector<int> came_by(at(shape_.ranks), -1);  // [rank] hop
    for (const int index : tree.links) {
      const RankLink& link = links_[at(index)];
      const int channel = least_loaded(link);
      for (const int physical : link.routes[at(channel)]) loads_[at(physical)] += copies;
      came_by[at(link.to)] = static_cast<int>(hops_.size());
      hops_.push_back({came_by[at(link.from)], static_cast<double>(copies), link.routes[at(channel)]});
      transfers_.push_back({chunk, link.from, link.to, channel + period_ * lane_of(index)});
    }
  }

  /// Trees of a broadcast are few, and at different heights when they come to the same pair of ranks; on channels of
  /// their own they do not wait for one another.
  int lane_of(int link) {
    if (shape_.collective != Collective::broadcast) return 0;
    return trees_on_[at(link)]++ % std::max(kMostChannels / period_, 1);
  }

  int least_loaded(const RankLink& link) const {
    const auto time_after = [&](const std::vector<int>& route) {
      return (loads_[at(route.front())] + 1) / capacity(route.front());
    };
    const auto best = std::min_element(link.routes.begin(), link.routes.end(), [&](const auto& one, const auto& other) {
      return time_after(one) < time_after(other);
    });
    return static_cast<int>(best - link.routes.begin());
  }

  const Topology& topology_;
  int period_;
  Shape shape_;
  const std::vector<RankLink>& links_;
  std::vector<double> loads_;    // [physical link] chunks
  std::vector<int> trees_on_;    // [rank link]
  std::vector<int> next_chunk_;  // [root]
  std::vector<TreeHop> hops_;
  std::vector<Transfer> transfers_;  // [hop], of its first copy
  PackedTrees packed_;
};

}  // namespace

PackedTrees make_tree_schedule(Routes& routes, const Shape& shape, const std::vector<RankLink>& links,
                               const std::vector<GrownTree>& trees) {
  TreeSchedule schedule(routes, shape, links);
  for (const GrownTree& tree : trees) schedule.add(tree);
  return schedule.finish();
}

}  // namespace tutti
