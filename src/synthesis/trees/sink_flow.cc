#include "synthesis/trees/sink_flow.hpp"

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr int kNone = -1;
constexpr int kInNeed = -1;  // a tree the search starts from, where others come by a supply

}  // namespace

SinkFlow::SinkFlow(int ranks, const std::vector<RankLink>& links, const std::vector<std::int64_t>& capacities,
                   const std::vector<GrowingTree>& trees)
    : links_(links),
      capacities_(capacities),
      trees_(trees),
      out_(at(ranks)),
      in_(at(ranks)),
      paths_(at(ranks)),
      flow_(links.size(), 0),
      supplies_at_(at(ranks)),
      rank_seen_(at(ranks), 0),
      came_by_(at(ranks)) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    out_[at(links[i].from)].push_back(static_cast<int>(i));
    in_[at(links[i].to)].push_back(static_cast<int>(i));
  }
}

std::int64_t SinkFlow::shortfall(int tree, int link, std::int64_t copies) {
  sink_ = links_[at(link)].to;
  taken_ = link;
  taken_copies_ = copies;
  set_needs(tree, copies);
  std::vector<Path> known = std::move(paths_[at(sink_)]);
  for (const Path& path : known) load(path, path.tree);
  while (augment()) {
  }
  std::int64_t missing = 0;
  for (const std::int64_t need : needs_) missing += need;
  save_and_clear();
  return missing;
}

void SinkFlow::set_needs(int tree, std::int64_t copies) {
  needs_.assign(trees_.size(), 0);
  tree_seen_.resize(trees_.size(), 0);
  tree_came_by_.resize(trees_.size(), kInNeed);
  for (std::size_t i = 0; i < trees_.size(); ++i)
    if (!trees_[i].has(sink_)) needs_[i] = trees_[i].copies;
  needs_[at(tree)] -= copies;
}

std::int64_t SinkFlow::room(int link) const {
  return capacities_[at(link)] - flow_[at(link)] - (link == taken_ ? taken_copies_ : 0);
}

/// As much of a path as there is still room and need for; what the tree no longer needs may serve those split off it.
void SinkFlow::load(const Path& path, int tree) {
  Path rest = path;
  const int start = links_[at(path.links.front())].from;
  if (needs_[at(tree)] > 0 && trees_[at(tree)].has(start)) {
    std::int64_t amount = std::min(path.amount, needs_[at(tree)]);
    for (const int link : path.links) amount = std::min(amount, room(link));
    if (amount > 0) {
      for (const int link : path.links) change_flow(link, amount);
      add_supply(tree, start, amount);
      needs_[at(tree)] -= amount;
      rest.amount -= amount;
    }
  }
  if (rest.amount > 0)
    for (const int other : trees_[at(tree)].split_off) load(rest, other);
}

void SinkFlow::change_flow(int link, std::int64_t amount) {
  if (flow_[at(link)] == 0) touched_.push_back(link);
  flow_[at(link)] += amount;
}

void SinkFlow::add_supply(int tree, int rank, std::int64_t amount) {
  for (const int index : supplies_at_[at(rank)])
    if (supplies_[at(index)].tree == tree) {
      supplies_[at(index)].amount += amount;
      return;
    }
  supplies_at_[at(rank)].push_back(static_cast<int>(supplies_.size()));
  supplies_.push_back({tree, rank, amount});
}

bool SinkFlow::augment() {
  if (!search()) return false;
  push_found();
  return true;
}

/// Breadth first, from the members of all trees in need, through the room that is left.
bool SinkFlow::search() {
  ++round_;
  queue_.clear();
  for (std::size_t tree = 0; tree < needs_.size(); ++tree) {
    if (needs_[tree] == 0) continue;
    tree_came_by_[tree] = kInNeed;
    if (reach_members(static_cast<int>(tree))) return true;
  }
  for (std::size_t head = 0; head < queue_.size(); ++head) {
    const int rank = queue_[head];
    for (const int link : out_[at(rank)])
      if (rank_seen_[at(links_[at(link)].to)] != round_ && room(link) > 0 &&
          reach(links_[at(link)].to, {SearchStepKind::along, link}))
        return true;
    for (const int link : in_[at(rank)])
      if (rank_seen_[at(links_[at(link)].from)] != round_ && flow_[at(link)] > 0)
        reach(links_[at(link)].from, {SearchStepKind::back, link});
    for (const int index : supplies_at_[at(rank)]) {
      const Supply& supply = supplies_[at(index)];
      if (supply.amount == 0 || tree_seen_[at(supply.tree)] == round_) continue;
      tree_came_by_[at(supply.tree)] = index;
      if (reach_members(supply.tree)) return true;
    }
  }
  return false;
}

/// Whether that was the sink.
bool SinkFlow::reach(int rank, SearchStep step) {
  rank_seen_[at(rank)] = round_;
  came_by_[at(rank)] = step;
  queue_.push_back(rank);
  return rank == sink_;
}

bool SinkFlow::reach_members(int tree) {
  tree_seen_[at(tree)] = round_;
  for (const int member : trees_[at(tree)].members)
    if (rank_seen_[at(member)] != round_ && reach(member, {SearchStepKind::member, tree})) return true;
  return false;
}

/// Sends as much as fits along what the search found.
void SinkFlow::push_found() {
  found_.clear();
  std::int64_t amount = std::numeric_limits<std::int64_t>::max();
  for (int rank = sink_, tree_in_need = kNone; tree_in_need == kNone;) {
    const SearchStep step = came_by_[at(rank)];
    found_.push_back({step, rank});
    if (step.kind == SearchStepKind::along) {
      amount = std::min(amount, room(step.index));
      rank = links_[at(step.index)].from;
    } else if (step.kind == SearchStepKind::back) {
      amount = std::min(amount, flow_[at(step.index)]);
      rank = links_[at(step.index)].to;
    } else if (const int supply = tree_came_by_[at(step.index)]; supply != kInNeed) {
      amount = std::min(amount, supplies_[at(supply)].amount);
      rank = supplies_[at(supply)].rank;
    } else {
      amount = std::min(amount, needs_[at(step.index)]);
      tree_in_need = step.index;
    }
  }
  for (const auto& [step, rank] : found_) {
    if (step.kind == SearchStepKind::along) {
      change_flow(step.index, amount);
    } else if (step.kind == SearchStepKind::back) {
      flow_[at(step.index)] -= amount;
    } else {
      const int supply = tree_came_by_[at(step.index)];
      (supply == kInNeed ? needs_[at(step.index)] : supplies_[at(supply)].amount) -= amount;
      add_supply(step.index, rank, amount);
    }
  }
}

/// Keeps the flow as paths for the next question about this sink.
void SinkFlow::save_and_clear() {
  std::vector<Path>& paths = paths_[at(sink_)];
  paths.clear();
  for (Supply& supply : supplies_)
    while (supply.amount > 0) paths.push_back(walk(supply));
  for (const Supply& supply : supplies_) supplies_at_[at(supply.rank)].clear();
  supplies_.clear();
  for (const int link : touched_) flow_[at(link)] = 0;
  touched_.clear();
}

/// Follows the flow from where a supply starts to the sink, and takes it away. Cycles, which carry nothing, are cut.
SinkFlow::Path SinkFlow::walk(Supply& supply) {
  Path path{supply.tree, supply.amount, {}};
  ++round_;
  for (int rank = supply.rank; rank != sink_;) {
    rank_seen_[at(rank)] = round_;
    const auto next =
        std::find_if(out_[at(rank)].begin(), out_[at(rank)].end(), [&](int link) { return flow_[at(link)] > 0; });
    path.links.push_back(*next);
    rank = links_[at(*next)].to;
    if (rank_seen_[at(rank)] == round_) rank = cut_cycle(path, rank);
  }
  for (const int link : path.links) path.amount = std::min(path.amount, flow_[at(link)]);
  for (const int link : path.links) flow_[at(link)] -= path.amount;
  supply.amount -= path.amount;
  return path;
}

/// The path has come back to `rank`: what lies between is taken out of the flow and of the path.
int SinkFlow::cut_cycle(Path& path, int rank) {
  auto first = path.links.end();
  do --first;
  while (links_[at(*first)].from != rank);
  std::int64_t amount = std::numeric_limits<std::int64_t>::max();
  for (auto link = first; link != path.links.end(); ++link) amount = std::min(amount, flow_[at(*link)]);
  for (auto link = first; link != path.links.end(); ++link) {
    flow_[at(*link)] -= amount;
    rank_seen_[at(links_[at(*link)].to)] = 0;
  }
  path.links.erase(first, path.links.end());
  return rank;
}

}  // namespace tutti
