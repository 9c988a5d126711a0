#include "synthesis/taccl/taccl_ordering.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

enum class Heuristic { switches, several_nodes, reduction };

/// Times that differ by less than rounding does are the same.
class Rounding {
 public:
  explicit Rounding(const TacclProblem& problem) {
    for (const TacclLink& link : problem.model.links) unit_ = std::min(unit_, link.cost());
  }
  double operator()(double seconds) const { return std::round(seconds / unit_ * 1e6); }

 private:
  double unit_ = HUGE_VAL;
};

std::vector<TacclSend> sends_of(const TacclProblem& problem, const TacclTrees& trees) {
  std::vector<TacclSend> sends;
  for (int chunk = 0; chunk < static_cast<int>(trees.size()); ++chunk) {
    std::map<int, int> brought_by;
    for (const int link : trees[at(chunk)]) {
      const TacclLink& ends = problem.model.links[at(link)];
      const auto before = brought_by.find(ends.from);
      brought_by[ends.to] = static_cast<int>(sends.size());
      sends.push_back({chunk, link, before == brought_by.end() ? -1 : before->second});
    }
  }
  return sends;
}

/// Ways from and to go, of every send.
class Travel {
 public:
  Travel(const TacclProblem& problem, const std::vector<TacclSend>& sends)
      : longest(sends.size(), 0), sum(sends.size(), 0), done(sends.size(), 0), hops(sends.size(), 0) {
    std::vector<int> leaves(sends.size(), 0);  // paths through each send
    const auto cost = [&](std::size_t i) { return problem.model.links[at(sends[i].link)].cost(); };
    for (std::size_t i = sends.size(); i-- > 0;) {
      if (leaves[i] == 0) leaves[i] = 1;
      longest[i] += cost(i);
      sum[i] += cost(i) * leaves[i];
      if (sends[i].after < 0) continue;
      const std::size_t before = at(sends[i].after);
      hops[before] = leaves[before] == 0 ? hops[i] + 1 : std::min(hops[before], hops[i] + 1);
      leaves[before] += leaves[i];
      longest[before] = std::max(longest[before], longest[i]);
      sum[before] += sum[i];
    }
    for (std::size_t i = 0; i < sends.size(); ++i)
      if (sends[i].after >= 0) done[i] = done[at(sends[i].after)] + cost(at(sends[i].after));
  }

  std::vector<double> longest;  // seconds to the farthest end, this send included
  std::vector<double> sum;      // over all ends
  std::vector<double> done;     // seconds from the chunk's home
  std::vector<int> hops;        // to the nearest end
};

/// Whether a chunk stays in its own node.
bool stays_home(const TacclProblem& problem, const TacclSend& send) {
  const TacclLink& link = problem.model.links[at(send.link)];
  return !link.remote && problem.model.node_of(link.from) == problem.model.node_of(problem.chunks[at(send.chunk)].home);
}

/// Forwards: the times at which a list scheduler places the sends.
class ListScheduler {
 public:
  ListScheduler(const TacclProblem& problem, const std::vector<TacclSend>& sends, Heuristic heuristic)
      : problem_(problem),
        sends_(sends),
        heuristic_(heuristic),
        rounded_(problem),
        travel_(problem, sends),
        places_(sends.size(), 0) {
    links_.assign(problem.model.links.size(), 0);
    ports_.assign(problem.model.ports.size(), 0);
    number_paths();
  }

  std::vector<double> places() {
    std::vector<std::vector<int>> next(sends_.size());
    std::vector<int> ready;
    ready_at_.assign(sends_.size(), 0);
    for (std::size_t i = 0; i < sends_.size(); ++i)
      (sends_[i].after < 0 ? ready : next[at(sends_[i].after)]).push_back(static_cast<int>(i));
    while (!ready.empty()) {
      const auto best = std::min_element(ready.begin(), ready.end(), [&](int a, int b) { return key(a) < key(b); });
      const int send = *best;
      ready.erase(best);
      const double end = place(send);
      for (const int follower : next[at(send)]) {
        ready_at_[at(follower)] = end;
        ready.push_back(follower);
      }
      if (heuristic_ == Heuristic::reduction)
        for (const int other : ready)
          if (sends_[at(other)].chunk == sends_[at(send)].chunk && sends_[at(other)].after == sends_[at(send)].after)
            ready_at_[at(other)] = end;
    }
    return places_;
  }

 private:
  using Key = std::tuple<double, double, double, int, int, int, int, int>;

  const TacclLink& link(int send) const { return problem_.model.links[at(sends_[at(send)].link)]; }

  /// Paths from home to an end have numbers, the longest first; a send has that of the first through it.
  void number_paths() {
    std::vector<int> ends;
    std::vector<bool> goes_on(sends_.size(), false);
    for (const TacclSend& send : sends_)
      if (send.after >= 0) goes_on[at(send.after)] = true;
    for (std::size_t i = 0; i < sends_.size(); ++i)
      if (!goes_on[i]) ends.push_back(static_cast<int>(i));
    const auto length = [&](int end) { return travel_.done[at(end)] + link(end).cost(); };
    std::stable_sort(ends.begin(), ends.end(), [&](int a, int b) { return length(a) > length(b); });
    path_.assign(sends_.size(), static_cast<int>(ends.size()));
    for (std::size_t i = 0; i < ends.size(); ++i)
      for (int send = ends[i]; send >= 0; send = sends_[at(send)].after)
        path_[at(send)] = std::min(path_[at(send)], static_cast<int>(i));
  }

  double earliest(int send) const {
    double time = std::max(ready_at_[at(send)], links_[at(sends_[at(send)].link)]);
    for (const int port : problem_.ports_of[at(sends_[at(send)].link)]) time = std::max(time, ports_[at(port)]);
    return time;
  }

  /// The smallest goes first.
  Key key(int send) const {
    const int ranks = problem_.model.ranks(), gpus = problem_.model.gpus;
    const int from = link(send).from, to = link(send).to;
    double first = -rounded_(travel_.longest[at(send)]), second = rounded_(earliest(send)), third = 0;
    if (heuristic_ == Heuristic::reduction) first = -rounded_(travel_.sum[at(send)]);
    if (heuristic_ == Heuristic::several_nodes) {
      third = first;
      first = second;
      second = stays_home(problem_, sends_[at(send)]) ? 0 : 1;
    }
    return {first, second, third, (from - to + ranks) % ranks, to % gpus, from % gpus, to / gpus, path_[at(send)]};
  }

  double place(int send) {
    const double begin = earliest(send), end = begin + link(send).cost();
    places_[at(send)] = begin;
    links_[at(sends_[at(send)].link)] = end;
    for (const int port : problem_.ports_of[at(sends_[at(send)].link)]) ports_[at(port)] = end;
    return end;
  }

  const TacclProblem& problem_;
  const std::vector<TacclSend>& sends_;
  Heuristic heuristic_;
  Rounding rounded_;
  Travel travel_;
  std::vector<double> places_, ready_at_, links_, ports_;
  std::vector<int> path_;
};

/// Backwards, from an end at 0: first what has no way to go afterwards, then what comes one hop before, and so on.
std::vector<double> places_from_the_end(const TacclProblem& problem, const std::vector<TacclSend>& sends) {
  const Travel travel(problem, sends);
  std::vector<double> places(sends.size(), 0), latest(sends.size(), 0), links(problem.model.links.size(), 0);
  std::vector<int> order(sends.size());
  std::iota(order.begin(), order.end(), 0);
  const int most = sends.empty() ? 0 : *std::max_element(travel.hops.begin(), travel.hops.end());
  for (int hops = 0; hops <= most; ++hops) {
    const auto key = [&](int i) {
      const TacclLink& link = problem.model.links[at(sends[at(i)].link)];
      const int distance = (link.from - link.to + problem.model.ranks()) % problem.model.ranks();
      return std::tuple(travel.longest[at(i)], -travel.done[at(i)], -latest[at(i)], distance, link.to);
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
    for (const int send : order) {
      if (travel.hops[at(send)] != hops) continue;
      double& link = links[at(sends[at(send)].link)];
      const double cost = problem.model.links[at(sends[at(send)].link)].cost();
      link = std::min(link, latest[at(send)]) - cost;
      places[at(send)] = link;
      if (const int before = sends[at(send)].after; before >= 0)
        latest[at(before)] = std::min(latest[at(before)], link);
    }
  }
  return places;
}

/// Lanes of links and ports, each in the order of these times, the first that differ.
std::vector<std::vector<int>> make_lanes(const TacclProblem& problem, const std::vector<TacclSend>& sends,
                                         const std::vector<std::pair<double, double>>& times) {
  const std::size_t links = problem.model.links.size();
  std::vector<std::vector<int>> lanes(links + problem.model.ports.size());
  for (std::size_t i = 0; i < sends.size(); ++i) {
    lanes[at(sends[i].link)].push_back(static_cast<int>(i));
    for (const int port : problem.ports_of[at(sends[i].link)]) lanes[links + at(port)].push_back(static_cast<int>(i));
  }
  for (auto& lane : lanes)
    std::stable_sort(lane.begin(), lane.end(), [&](int a, int b) { return times[at(a)] < times[at(b)]; });
  return lanes;
}

std::vector<std::pair<double, double>> pair_up(const TacclProblem& problem, const std::vector<double>& first,
                                               const std::vector<double>& second) {
  const Rounding rounded(problem);
  std::vector<std::pair<double, double>> pairs;
  for (std::size_t i = 0; i < first.size(); ++i) pairs.emplace_back(rounded(first[i]), rounded(second[i]));
  return pairs;
}

}  // namespace

TacclOrders order_sends(const TacclProblem& problem, const TacclTrees& trees) {
  TacclOrders orders;
  orders.sends = sends_of(problem, trees);
  const bool several_nodes = !problem.model.has_switches && problem.model.nodes > 1;
  const std::vector<double> places =
      problem.model.has_switches || several_nodes
          ? ListScheduler(problem, orders.sends, several_nodes ? Heuristic::several_nodes : Heuristic::switches)
                .places()
          : places_from_the_end(problem, orders.sends);
  std::vector<double> routed(orders.sends.size(), 0);
  if (!several_nodes) {
    const std::vector<double> arrivals = arrivals_of(problem, trees);
    for (std::size_t i = 0; i < routed.size(); ++i) {
      const TacclSend& send = orders.sends[i];
      const TacclLink& link = problem.model.links[at(send.link)];
      routed[i] = arrivals[at(send.chunk * problem.model.ranks() + link.to)] - link.cost();
    }
  }
  orders.lanes = make_lanes(problem, orders.sends, pair_up(problem, routed, places));
  return orders;
}

TacclOrders order_reductions(const TacclProblem& problem, const TacclOrders& orders,
                             const std::vector<double>& begins) {
  TacclOrders reductions;
  reductions.sends = orders.sends;
  const auto times = pair_up(problem, begins, ListScheduler(problem, orders.sends, Heuristic::reduction).places());
  reductions.lanes = make_lanes(problem, orders.sends, times);
  std::map<std::pair<int, int>, std::vector<int>> siblings;  // by chunk and rank
  for (std::size_t i = 0; i < orders.sends.size(); ++i)
    siblings[{orders.sends[i].chunk, problem.model.links[at(orders.sends[i].link)].from}].push_back(
        static_cast<int>(i));
  for (auto& [where, lane] : siblings) {
    if (lane.size() < 2) continue;
    std::stable_sort(lane.begin(), lane.end(), [&](int a, int b) { return times[at(a)] < times[at(b)]; });
    reductions.lanes.push_back(std::move(lane));
  }
  return reductions;
}

}  // namespace tutti
