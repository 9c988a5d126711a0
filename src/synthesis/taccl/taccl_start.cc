#include "synthesis/taccl/taccl_start.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <queue>
#include <random>
#include <set>

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kNear = 1e-9;          // relative: what counts as equal
constexpr double kLittle = 1e-3;        // what decides among equals
constexpr double kTooLate = 1e3;        // what arriving after the bound costs
constexpr int kPassesWithoutGain = 25;  // of routing all chunks again, until it is given up
constexpr int kPassesForASet = 2;
// By seed: what a late arrival costs even if it is before the bound, and the power of the load that is its price.
constexpr std::array<double, 4> kEagerness = {0, 1e-3, 1e-1, 1e-2};
constexpr std::array<double, 3> kSteepness = {12, 40, 100};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// A chunk's image, and the symmetry that makes it of the first of its orbit.
struct ChunkImage {
  int chunk = 0;
  std::vector<int> link_of;  // [link] its image
};

class Router {
 public:
  Router(const TacclProblem& problem, const TacclBound& bound, unsigned seed)
      : problem_(problem),
        bound_(bound),
        random_(seed),
        eagerness_(kEagerness[seed % kEagerness.size()]),
        steepness_(kSteepness[seed % kSteepness.size()]),
        minds_ports_(seed / kEagerness.size() % 2 == 0) {
    find_orbits();
    if (seed > 0) std::shuffle(order_.begin(), order_.end(), random_);
    forbidden_.assign(problem.model.links.size(), false);
  }

  /// False where a chunk cannot get to a rank over the connections that are not forbidden, or images do not fit.
  bool route(int passes, Clock::time_point end) {
    clear();
    for (const std::size_t i : order_)
      if (!add(i)) return false;
    if (!keeps_to(problem_, trees_)) return false;
    best_ = trees_;
    best_cost_ = cost_of(problem_, best_);
    for (int idle = 0; idle < passes && !is_perfect() && Clock::now() < end; ++idle) {
      std::shuffle(order_.begin(), order_.end(), random_);
      for (const std::size_t i : order_) {
        remove(i);
        if (!add(i)) return false;
      }
      const TacclCost cost = cost_of(problem_, trees_);
      if (cost.objective < best_cost_.objective * (1 - kNear)) {
        best_ = trees_;
        best_cost_ = cost;
        idle = 0;
      }
    }
    return true;
  }

  bool is_perfect() const { return best_cost_.objective <= bound_.objective + kNear * bound_.time; }
  void forbid(int connection, bool forbidden) {
    for (std::size_t link = 0; link < forbidden_.size(); ++link)
      if (problem_.connection_of[link] == connection) forbidden_[link] = forbidden;
  }
  const TacclTrees& best() const { return best_; }
  const TacclCost& best_cost() const { return best_cost_; }
  std::mt19937& random() { return random_; }

 private:
  void find_orbits() {
    std::map<std::pair<int, int>, int> between;
    for (std::size_t i = 0; i < problem_.model.links.size(); ++i)
      between[{problem_.model.links[i].from, problem_.model.links[i].to}] = static_cast<int>(i);
    std::vector<bool> known(problem_.chunks.size(), false);
    for (int chunk = 0; chunk < static_cast<int>(problem_.chunks.size()); ++chunk) {
      if (known[at(chunk)] || problem_.chunks[at(chunk)].wanted.empty()) continue;
      std::vector<ChunkImage> orbit(1);
      orbit.front().chunk = chunk;
      for (std::size_t i = 0; i < problem_.model.links.size(); ++i)
        orbit.front().link_of.push_back(static_cast<int>(i));
      known[at(chunk)] = true;
      for (std::size_t i = 0; i < orbit.size(); ++i)
        for (const Permutation& symmetry : problem_.symmetries) {
          const int image = problem_.image_of(orbit[i].chunk, symmetry);
          if (known[at(image)]) continue;
          known[at(image)] = true;
          ChunkImage next{image, {}};
          for (const int link : orbit[i].link_of) {
            const TacclLink& ends = problem_.model.links[at(link)];
            next.link_of.push_back(between.at({symmetry[at(ends.from)], symmetry[at(ends.to)]}));
          }
          orbit.push_back(std::move(next));
        }
      order_.push_back(orbits_.size());
      orbits_.push_back(std::move(orbit));
    }
  }

  void clear() {
    trees_.assign(problem_.chunks.size(), {});
    links_.assign(problem_.model.links.size(), 0);
    ports_.assign(problem_.model.ports.size(), 0);
  }

  void carry(int link, double sign) {
    const double cost = sign * problem_.model.links[at(link)].cost();
    links_[at(link)] += cost;
    for (const int port : problem_.ports_of[at(link)]) ports_[at(port)] += cost;
  }

  void remove(std::size_t index) {
    for (const ChunkImage& image : orbits_[index]) {
      for (const int link : trees_[at(image.chunk)]) carry(link, -1);
      trees_[at(image.chunk)].clear();
    }
  }

  void take(std::size_t index, int link) {
    for (const ChunkImage& image : orbits_[index]) {
      trees_[at(image.chunk)].push_back(image.link_of[at(link)]);
      carry(image.link_of[at(link)], 1);
    }
  }

  double price(int link) const {
    const double cost = problem_.model.links[at(link)].cost();
    const auto rise = [&](double load) {
      return std::pow((load + cost) / bound_.time, steepness_) -
             std::pow(std::max(load, 0.0) / bound_.time, steepness_);
    };
    double sum = rise(links_[at(link)]);
    if (problem_.model.policy == ConnectionPolicy::most) sum += kLittle * links_[at(link)] / bound_.time;
    for (const int port : problem_.ports_of[at(link)]) sum += rise(ports_[at(port)]);
    return sum;
  }

  /// When the link's sender, that has the chunk since `arrival`, is through with all it sends of it through a port.
  double passed_on(int link, double arrival) const {
    double time = 0;
    if (!minds_ports_) return time;
    for (const int port : problem_.ports_of[at(link)])
      if (problem_.model.ports[at(port)].outgoing)
        time = arrival + passed_on_[at(port)] + problem_.model.links[at(link)].cost();
    return time;
  }

  double lateness(double arrival) const {
    const double part = arrival / bound_.time;
    return std::pow(part, steepness_) + eagerness_ * part + (part > 1 + kNear ? kTooLate * part : 0);
  }

  /// Grows the chunk's tree by the cheapest way to a rank that wants it, until all have it.
  bool add(std::size_t index) {
    const TacclChunk& chunk = problem_.chunks[at(orbits_[index].front().chunk)];
    std::vector<double> arrival(at(problem_.model.ranks()), HUGE_VAL);
    arrival[at(chunk.home)] = 0;
    passed_on_ = std::vector<double>(problem_.model.ports.size(), 0);
    std::set<int> missing(chunk.wanted.begin(), chunk.wanted.end());
    while (!missing.empty()) {
      const std::vector<int> way = cheapest_way(chunk, arrival, missing);
      if (way.empty()) return false;
      for (const int link : way) {
        const TacclLink& ends = problem_.model.links[at(link)];
        arrival[at(ends.to)] = arrival[at(ends.from)] + ends.cost();
        missing.erase(ends.to);
        for (const int port : problem_.ports_of[at(link)]) passed_on_[at(port)] += ends.cost();
        take(index, link);
      }
    }
    return true;
  }

  /// From any rank that has the chunk to any that misses it; late arrivals cost a little, or much where time is short.
  std::vector<int> cheapest_way(const TacclChunk& chunk, const std::vector<double>& arrival,
                                const std::set<int>& missing) const {
    struct Reached {
      double price = HUGE_VAL;
      double arrival = 0;
      int through = -1;
    };
    std::vector<Reached> reached(arrival.size());
    using Entry = std::tuple<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (std::size_t rank = 0; rank < arrival.size(); ++rank)
      if (arrival[rank] < HUGE_VAL) {
        reached[rank] = {0, arrival[rank], -1};
        queue.emplace(0, static_cast<int>(rank));
      }
    while (!queue.empty()) {
      const auto [price_here, rank] = queue.top();
      queue.pop();
      if (price_here > reached[at(rank)].price) continue;
      if (missing.count(rank) > 0) return way_to(rank, reached);
      for (const int option : chunk.options) {
        const int index = problem_.options[at(option)].link;
        const TacclLink& link = problem_.model.links[at(index)];
        if (link.from != rank || forbidden_[at(index)] || arrival[at(link.to)] < HUGE_VAL) continue;
        const double arrives = reached[at(rank)].arrival + link.cost();
        const double next = price_here + price(index) +
                            lateness(std::max(arrives, passed_on(index, reached[at(rank)].arrival))) +
                            link.cost() / bound_.time * kLittle;
        if (next >= reached[at(link.to)].price) continue;
        reached[at(link.to)] = {next, arrives, index};
        queue.emplace(next, link.to);
      }
    }
    return {};
  }

  template <typename Reached>
  std::vector<int> way_to(int rank, const std::vector<Reached>& reached) const {
    std::vector<int> way;
    while (reached[at(rank)].through >= 0) {
      way.push_back(reached[at(rank)].through);
      rank = problem_.model.links[at(way.back())].from;
    }
    std::reverse(way.begin(), way.end());
    return way;
  }

  const TacclProblem& problem_;
  const TacclBound& bound_;
  std::vector<std::vector<ChunkImage>> orbits_;
  std::vector<std::size_t> order_;
  std::vector<bool> forbidden_;  // [link]
  std::vector<double> links_, ports_;
  std::vector<double> passed_on_;  // [port] seconds of the chunk that is being routed
  TacclTrees trees_, best_;
  TacclCost best_cost_;
  std::mt19937 random_;
  double eagerness_, steepness_;
  bool minds_ports_;  // what a rank passes on through a port is not to be late either
};

/// Tries small sets of connections, smallest first, as long as one may do: a set of `count` beyond those chosen.
class SmallSets {
 public:
  SmallSets(const TacclProblem& problem, Router& router, TacclTrees& best, unsigned seed, Clock::time_point end)
      : router_(router), best_(best), best_cost_(router.best_cost()), end_(end) {
    for (std::size_t link = 0; link < problem.model.links.size(); ++link)
      if (!problem.model.links[link].remote &&
          std::find(all_.begin(), all_.end(), problem.connection_of[link]) == all_.end())
        all_.push_back(problem.connection_of[link]);
    if (seed > 0) std::shuffle(all_.begin(), all_.end(), router.random());
  }

  void search() {
    for (const int connection : all_) router_.forbid(connection, true);
    for (std::size_t count = 1; count <= all_.size() && !done_; ++count) choose(all_.begin(), count);
  }

 private:
  void choose(std::vector<int>::const_iterator from, std::size_t count) {
    if (count == 0) return try_it();
    for (auto next = from; next != all_.end() && !done_; ++next) {
      router_.forbid(*next, false);
      choose(std::next(next), count - 1);
      router_.forbid(*next, true);
    }
  }

  void try_it() {
    if (router_.route(kPassesForASet, end_) && router_.best_cost().objective < best_cost_.objective * (1 - kNear)) {
      best_ = router_.best();
      best_cost_ = router_.best_cost();
      done_ = router_.is_perfect();
    }
    done_ = done_ || Clock::now() >= end_;
  }

  Router& router_;
  TacclTrees& best_;
  TacclCost best_cost_;
  Clock::time_point end_;
  std::vector<int> all_;
  bool done_ = false;
};

}  // namespace

std::optional<TacclTrees> find_routes(const TacclProblem& problem, const TacclBound& bound, unsigned seed,
                                      double seconds) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Router router(problem, bound, seed);
  if (!router.route(kPassesWithoutGain, end)) return std::nullopt;
  TacclTrees best = router.best();
  if (problem.model.policy == ConnectionPolicy::fewest && !router.is_perfect())
    SmallSets(problem, router, best, seed, end).search();
  return best;
}

bool keeps_to(const TacclProblem& problem, const TacclTrees& trees) {
  std::vector<int> taken(at(problem.decisions), -1);
  for (int chunk = 0; chunk < static_cast<int>(trees.size()); ++chunk) {
    const std::set<int> links(trees[at(chunk)].begin(), trees[at(chunk)].end());
    std::size_t used = 0;
    for (const int option : problem.chunks[at(chunk)].options) {
      const TacclOption& which = problem.options[at(option)];
      const int yes = links.count(which.link) > 0 ? 1 : 0;
      used += std::size_t(yes);
      int& decided = taken[at(which.same)];
      if (decided >= 0 && decided != yes) return false;
      decided = yes;
    }
    if (used != links.size()) return false;
    std::set<int> there = {problem.chunks[at(chunk)].home};
    for (const int link : trees[at(chunk)])
      if (there.count(problem.model.links[at(link)].from) == 0 ||
          !there.insert(problem.model.links[at(link)].to).second)
        return false;
    for (const int rank : problem.chunks[at(chunk)].wanted)
      if (there.count(rank) == 0) return false;
  }
  return true;
}

}  // namespace tutti
