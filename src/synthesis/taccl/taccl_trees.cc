#include "synthesis/taccl/taccl_trees.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <set>

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

double cheapest_link(const TacclProblem& problem) {
  double cheapest = HUGE_VAL;
  for (const TacclLink& link : problem.model.links) cheapest = std::min(cheapest, link.cost());
  return cheapest;
}

/// A link whose connection the sketch's policy counts.
bool counts(const TacclProblem& problem, int link) {
  const TacclLink& ends = problem.model.links[at(link)];
  return ends.from < problem.model.gpus && ends.to < problem.model.gpus;
}

/// A sender's own chunks go first on a link to another node; the others follow one transfer later.
void put_own_chunks_first(const TacclProblem& problem, const TacclTrees& trees, std::vector<double>& arrivals) {
  const int ranks = problem.model.ranks();
  std::map<int, double> own;  // by link, the last arrival
  for (int chunk = 0; chunk < static_cast<int>(trees.size()); ++chunk)
    for (const int index : trees[at(chunk)]) {
      const TacclLink& link = problem.model.links[at(index)];
      if (link.remote && link.from == problem.chunks[at(chunk)].home)
        own[index] = std::max(own[index], arrivals[at(chunk * ranks + link.to)]);
    }
  for (int chunk = 0; chunk < static_cast<int>(trees.size()); ++chunk)
    for (const int index : trees[at(chunk)]) {
      const TacclLink& link = problem.model.links[at(index)];
      double earliest = arrivals[at(chunk * ranks + link.from)] + link.cost();
      const auto last = own.find(index);
      if (last != own.end() && link.from != problem.chunks[at(chunk)].home)
        earliest = std::max(earliest, last->second + link.cost());
      arrivals[at(chunk * ranks + link.to)] = earliest;
    }
}

/// When ranks have passed on through their ports what they got.
double last_passed_on(const TacclProblem& problem, const TacclTrees& trees, const std::vector<double>& arrivals) {
  double last = 0;
  for (int chunk = 0; chunk < static_cast<int>(trees.size()); ++chunk) {
    std::map<int, double> through;  // by port out
    for (const int link : trees[at(chunk)])
      for (const int port : problem.ports_of[at(link)])
        if (problem.model.ports[at(port)].outgoing) through[port] += problem.model.links[at(link)].cost();
    for (const auto& [port, seconds] : through)
      last = std::max(last, arrivals[at(chunk * problem.model.ranks() + problem.model.ports[at(port)].rank)] + seconds);
  }
  return last;
}

/// Something that carries one chunk after the other, and at most so many there are for it.
struct ChunkCarrier {
  double cost = 0;
  int most = 0;
};

/// When so many chunks are through.
double time_for(int count, const std::vector<ChunkCarrier>& lanes) {
  using Next = std::tuple<double, double, int>;  // when the next is through, cost, how many more
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  for (const ChunkCarrier& lane : lanes)
    if (lane.most > 0) queue.emplace(lane.cost, lane.cost, lane.most - 1);
  double time = 0;
  for (; count > 0 && !queue.empty(); --count) {
    const auto [done, cost, more] = queue.top();
    queue.pop();
    time = done;
    if (more > 0) queue.emplace(done + cost, cost, more - 1);
  }
  return time;
}

class TreeTimeBounds {
 public:
  explicit TreeTimeBounds(const TacclProblem& problem)
      : problem_(problem), model_(problem.model), chunks_over_(model_.links.size(), 0) {
    for (const TacclOption& option : problem.options) ++chunks_over_[at(option.link)];
  }

  double time() {
    double time = farthest();
    for (int rank = 0; rank < model_.ranks(); ++rank) {
      time = std::max(time, time_for(wanted_by(rank), lanes(false, [&](const TacclLink& l) { return l.to == rank; })));
      time = std::max(time, time_for(sent_by(rank), lanes(true, [&](const TacclLink& l) { return l.from == rank; })));
    }
    for (int node = 0; node < model_.nodes; ++node) {
      const auto into = [&](const TacclLink& l) { return l.remote && model_.node_of(l.to) == node; };
      const auto out = [&](const TacclLink& l) { return l.remote && model_.node_of(l.from) == node; };
      time = std::max(time, time_for(crossings([&](int, int target) { return target == node; }), lanes(false, into)));
      time = std::max(
          time, time_for(crossings([&](int home, int) { return model_.node_of(home) == node; }), lanes(true, out)));
    }
    for (const std::vector<int>& senders : std::set(model_.senders_of.begin(), model_.senders_of.end())) {
      if (senders.size() != 1) continue;
      const auto out = [&](const TacclLink& l) { return l.remote && l.from == senders.front(); };
      time = std::max(time, time_for(crossings([&](int home, int) { return model_.senders_of[at(home)] == senders; }),
                                     lanes(true, out)));
    }
    return time;
  }

  /// At least so many, for few; at most, for many.
  int connections(ConnectionPolicy policy) {
    std::set<int> possible, forced;
    std::set<int> receivers, with_forced;
    for (int chunk = 0; chunk < static_cast<int>(problem_.chunks.size()); ++chunk) {
      std::map<int, std::vector<int>> into;
      for (const int option : problem_.chunks[at(chunk)].options)
        into[problem_.link_of(problem_.options[at(option)]).to].push_back(problem_.options[at(option)].link);
      for (const auto& [rank, links] : into) {
        const bool all_count = std::all_of(links.begin(), links.end(), [&](int l) { return counts(problem_, l); });
        for (const int link : links)
          if (counts(problem_, link)) possible.insert(link);
        if (!all_count || !wants(problem_.shape, chunk, rank)) continue;
        receivers.insert(rank);
        if (links.size() == 1) forced.insert(links.front());
      }
    }
    if (policy == ConnectionPolicy::most) return static_cast<int>(possible.size());
    for (const int link : forced) with_forced.insert(model_.links[at(link)].to);
    return static_cast<int>(forced.size() + receivers.size() - with_forced.size());
  }

 private:
  /// What can carry chunks at the same time: ports, and links that share none.
  template <typename Belongs>
  std::vector<ChunkCarrier> lanes(bool outgoing, const Belongs& belongs) const {
    std::map<std::pair<int, int>, ChunkCarrier> lanes;  // by port, or by link
    for (std::size_t i = 0; i < model_.links.size(); ++i) {
      if (!belongs(model_.links[i])) continue;
      const auto port = std::find_if(problem_.ports_of[i].begin(), problem_.ports_of[i].end(),
                                     [&](int p) { return model_.ports[at(p)].outgoing == outgoing; });
      const bool shared = port != problem_.ports_of[i].end();
      ChunkCarrier& lane = lanes
                               .emplace(shared ? std::pair(*port, -1) : std::pair(-1, static_cast<int>(i)),
                                        ChunkCarrier{model_.links[i].cost(), 0})
                               .first->second;
      lane.cost = std::min(lane.cost, model_.links[i].cost());
      lane.most += chunks_over_[i];
    }
    std::vector<ChunkCarrier> all;
    for (const auto& [key, lane] : lanes) all.push_back(lane);
    return all;
  }

  int wanted_by(int rank) const {
    return static_cast<int>(std::count_if(problem_.chunks.begin(), problem_.chunks.end(), [&](const TacclChunk& c) {
      return std::find(c.wanted.begin(), c.wanted.end(), rank) != c.wanted.end();
    }));
  }

  int sent_by(int rank) const {
    return static_cast<int>(std::count_if(problem_.chunks.begin(), problem_.chunks.end(),
                                          [&](const TacclChunk& c) { return c.home == rank && !c.wanted.empty(); }));
  }

  /// Chunks times nodes they have to be brought to.
  template <typename Belongs>
  int crossings(const Belongs& belongs) const {
    int count = 0;
    for (const TacclChunk& chunk : problem_.chunks) {
      std::set<int> nodes;
      for (const int rank : chunk.wanted) nodes.insert(model_.node_of(rank));
      nodes.erase(model_.node_of(chunk.home));
      for (const int node : nodes) count += belongs(chunk.home, node) ? 1 : 0;
    }
    return count;
  }

  double farthest() const {
    double farthest = 0;
    for (const TacclChunk& chunk : problem_.chunks) {
      std::vector<double> distance(at(model_.ranks()), HUGE_VAL);
      distance[at(chunk.home)] = 0;
      for (bool changed = true; changed;) {
        changed = false;
        for (const int option : chunk.options) {
          const TacclLink& link = problem_.link_of(problem_.options[at(option)]);
          if (distance[at(link.from)] + link.cost() >= distance[at(link.to)]) continue;
          distance[at(link.to)] = distance[at(link.from)] + link.cost();
          changed = true;
        }
      }
      for (const int rank : chunk.wanted) farthest = std::max(farthest, distance[at(rank)]);
    }
    return farthest;
  }

  const TacclProblem& problem_;
  const TacclModel& model_;
  std::vector<int> chunks_over_;  // [link] how many may go over it
};

}  // namespace

double connection_weight(const TacclProblem& problem) {
  switch (problem.model.policy) {
    case ConnectionPolicy::fewest:
      return cheapest_link(problem) / 1000;
    case ConnectionPolicy::most:
      return -cheapest_link(problem) / 1000;
    case ConnectionPolicy::any:
      break;
  }
  return 0;
}

TacclLoads loads_of(const TacclProblem& problem, const TacclTrees& trees) {
  TacclLoads loads{std::vector<double>(problem.model.links.size(), 0),
                   std::vector<double>(problem.model.ports.size(), 0)};
  for (const auto& tree : trees)
    for (const int link : tree) {
      const double cost = problem.model.links[at(link)].cost();
      loads.links[at(link)] += cost;
      for (const int port : problem.ports_of[at(link)]) loads.ports[at(port)] += cost;
    }
  return loads;
}

std::vector<double> arrivals_of(const TacclProblem& problem, const TacclTrees& trees) {
  const int ranks = problem.model.ranks();
  std::vector<double> arrivals(trees.size() * at(ranks), -1);
  for (int chunk = 0; chunk < static_cast<int>(trees.size()); ++chunk) {
    arrivals[at(chunk * ranks + problem.chunks[at(chunk)].home)] = 0;
    for (const int index : trees[at(chunk)]) {
      const TacclLink& link = problem.model.links[at(index)];
      arrivals[at(chunk * ranks + link.to)] = arrivals[at(chunk * ranks + link.from)] + link.cost();
    }
  }
  if (problem.model.own_chunks_first) put_own_chunks_first(problem, trees, arrivals);
  return arrivals;
}

TacclCost cost_of(const TacclProblem& problem, const TacclTrees& trees) {
  const TacclLoads loads = loads_of(problem, trees);
  const std::vector<double> arrivals = arrivals_of(problem, trees);
  TacclCost cost;
  double busiest = 0, idlest = HUGE_VAL;
  for (const auto* kind : {&loads.links, &loads.ports})
    for (const double load : *kind) {
      busiest = std::max(busiest, load);
      idlest = std::min(idlest, load);
    }
  cost.time = std::max(
      {busiest, *std::max_element(arrivals.begin(), arrivals.end()), last_passed_on(problem, trees, arrivals)});
  for (int link = 0; link < static_cast<int>(loads.links.size()); ++link)
    if (counts(problem, link) && loads.links[at(link)] > 0) ++cost.connections;
  cost.objective = cost.time + connection_weight(problem) * cost.connections;
  if (problem.model.balance == LinkBalance::least_of_the_busiest) cost.objective += kBalanceWeight * busiest;
  if (problem.model.balance == LinkBalance::most_of_the_idlest) cost.objective -= kBalanceWeight * idlest;
  return cost;
}

TacclBound bound_of(const TacclProblem& problem) {
  TreeTimeBounds bounds(problem);
  TacclBound bound;
  bound.time = bound.objective = bounds.time();
  if (problem.model.policy != ConnectionPolicy::any)
    bound.objective += connection_weight(problem) * bounds.connections(problem.model.policy);
  if (problem.model.balance == LinkBalance::most_of_the_idlest) bound.objective *= 1 - kBalanceWeight;
  return bound;
}

}  // namespace tutti
