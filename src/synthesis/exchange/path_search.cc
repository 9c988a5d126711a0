#include "synthesis/exchange/path_search.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <queue>
#include <utility>

namespace tutti {

namespace {

using Clock = std::chrono::steady_clock;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kAlmostFlat = 0.01;
constexpr double kFlattest = 32, kSteepest = 2048;  // how much fuller is worse: exponents at the busiest resource
constexpr double kSteepestStep = 16;                // of one chunk more, where a link carries but a few
constexpr int kPassesPerPhase = 6, kSearchesPerPhase = 1024;  // at least; a pass searches once for each source
constexpr double kNoiseAtFirst = 0.02, kNoise = 1e-6;         // of costs
/// What an idle resource costs, as a share of the busiest: paths stay short where it does not matter.
constexpr double kIdle = 1e-3;

/// The costs of resources: each exp(steepness * fill / fullest), kept up to date as chunks come and go.
class Costs {
 public:
  explicit Costs(const std::vector<double>& capacity)
      : capacity_(capacity), load_(capacity.size(), 0), weight_(capacity.size()), step_(capacity.size()) {}

  double fullest() const {
    double fullest = 0;
    for (std::size_t r = 0; r < load_.size(); ++r) fullest = std::max(fullest, load_[r] / capacity_[r]);
    return fullest;
  }

  /// `fullest` has the weight 1.
  void set_steepness(double steepness, double fullest) {
    for (std::size_t r = 0; r < load_.size(); ++r) {
      const double exponent = std::min(steepness / (capacity_[r] * fullest), kSteepestStep);
      step_[r] = std::exp(exponent);
      weight_[r] = std::exp(exponent * (load_[r] - capacity_[r] * fullest));
    }
  }

  void add(std::size_t resource) {
    load_[resource] += 1;
    weight_[resource] *= step_[resource];
  }
  void remove(std::size_t resource) {
    load_[resource] -= 1;
    weight_[resource] /= step_[resource];
  }
  /// Of one chunk more.
  double of(std::size_t resource) const { return (weight_[resource] + kIdle) * (step_[resource] - 1); }

 private:
  const std::vector<double>& capacity_;
  std::vector<double> load_, weight_, step_;  // step: what one chunk more multiplies the weight by
};

class PathSearch {
 public:
  PathSearch(const PathProblem& search, double seconds)
      : search_(search),
        hops_(*search.hops),
        costs_(search.resources.capacity),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {
    for (int hop = 0; hop < hops_.count(); ++hop) {
      first_.push_back(resources_.size());
      for (const int link : hops_.links(hop)) resources_.push_back(at(search.resources.of_link[at(link)]));
    }
    first_.push_back(resources_.size());
  }

  FoundPaths run() {
    found_.paths.resize(search_.sources.size() * at(hops_.ranks()) * at(search_.chunks));
    // At first links cost what a byte takes there; how full they are only decides between equals.
    double total = 0;
    for (const double capacity : search_.resources.capacity) total += capacity;
    costs_.set_steepness(kAlmostFlat, static_cast<double>(found_.paths.size()) / total);
    for (std::size_t s = 0; s < search_.sources.size(); ++s)
      if (!place(s)) return std::move(found_);
    keep_best();
    const int passes = std::max(kPassesPerPhase, kSearchesPerPhase / static_cast<int>(search_.sources.size()));
    for (double steepness = kFlattest; steepness <= kSteepest && !done(); steepness *= 2)
      for (int pass = 0; pass < passes && !done(); ++pass) {
        costs_.set_steepness(steepness, costs_.fullest());
        moved_ = 0;
        for (std::size_t s = 0; s < search_.sources.size() && Clock::now() < end_; ++s) improve(s);
        keep_best();
        if (moved_ == 0) break;
      }
    found_.paths = std::move(best_);
    found_.rate = best_fullest_ / (hops_.ranks() * search_.chunks);
    return std::move(found_);
  }

 private:
  bool done() const { return Clock::now() >= end_ || best_fullest_ <= search_.enough * hops_.ranks() * search_.chunks; }

  void keep_best() {
    const double fullest = costs_.fullest();
    if (!best_.empty() && fullest >= best_fullest_) return;
    best_fullest_ = fullest;
    best_ = found_.paths;
  }

  double cost_of_hop(int hop) const {
    double cost = 0;
    for (std::size_t i = first_[at(hop)]; i < first_[at(hop) + 1]; ++i) cost += costs_.of(resources_[i]);
    return cost;
  }
  double cost_of(const Path& path) const {
    double cost = 0;
    for (const int hop : path) cost += cost_of_hop(hop);
    return cost;
  }
  void add(const Path& path) {
    for (const int hop : path)
      for (std::size_t i = first_[at(hop)]; i < first_[at(hop) + 1]; ++i) costs_.add(resources_[i]);
  }
  void remove(const Path& path) {
    for (const int hop : path)
      for (std::size_t i = first_[at(hop)]; i < first_[at(hop) + 1]; ++i) costs_.remove(resources_[i]);
  }

  /// Shortest paths from a source, as the last hop to each rank. A little noise chooses among equals: ways through a
  /// grid that all turned at the same place would use some links only at the beginning and others only at the end.
  void settle(int source, double noise) {
    ++settled_;
    distance_.assign(at(hops_.ranks()), std::numeric_limits<double>::infinity());
    last_.assign(at(hops_.ranks()), -1);
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    distance_[at(source)] = 0;
    open.push({0, source});
    while (!open.empty()) {
      const auto [reached, rank] = open.top();
      open.pop();
      if (reached > distance_[at(rank)]) continue;
      for (const int index : hops_.leaving(rank)) {
        const Hop& hop = hops_.hop(index);
        if (!hops_.allows(source, hop)) continue;
        const double candidate = reached + cost_of_hop(index) * (1 + noise * random_of(index));
        if (candidate >= distance_[at(hop.to)]) continue;
        distance_[at(hop.to)] = candidate;
        last_[at(hop.to)] = index;
        open.push({candidate, hop.to});
      }
    }
  }

  /// From 0 to 1, another for every hop and every search.
  double random_of(int hop) const {
    std::uint64_t bits = (settled_ << 32) + static_cast<std::uint64_t>(hop);
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
    return static_cast<double>(bits >> 40) / static_cast<double>(1U << 24);
  }

  Path path_to(int source, int target) const {
    Path path;
    for (int rank = target; rank != source; rank = hops_.hop(path.back()).from) path.push_back(last_[at(rank)]);
    std::reverse(path.begin(), path.end());
    return path;
  }

  Path* paths_of(std::size_t s, int target) {
    return &found_.paths[(s * at(hops_.ranks()) + at(target)) * at(search_.chunks)];
  }

  bool counts(int source, int target) const {
    return target != source && (!search_.inside_nodes || hops_.node_of(source) == hops_.node_of(target));
  }

  bool place(std::size_t s) {
    const int source = search_.sources[s];
    for (int piece = 0; piece < search_.chunks; ++piece) {
      settle(source, kNoiseAtFirst);
      for (int target = 0; target < hops_.ranks(); ++target) {
        if (!counts(source, target)) continue;
        if (last_[at(target)] < 0) {
          found_.unreached_from = source;
          found_.unreached_to = target;
          return false;
        }
        Path& path = paths_of(s, target)[piece];
        path = path_to(source, target);
        add(path);
      }
    }
    return true;
  }

  void improve(std::size_t s) {
    const int source = search_.sources[s];
    settle(source, kNoise);
    for (int target = 0; target < hops_.ranks(); ++target) {
      if (!counts(source, target)) continue;
      const Path shortest = path_to(source, target);
      for (int piece = 0; piece < search_.chunks; ++piece) {
        Path& path = paths_of(s, target)[piece];
        if (path == shortest) continue;
        remove(path);
        if (cost_of(shortest) < cost_of(path) * (1 - 1e-9)) {
          path = shortest;
          ++moved_;
        }
        add(path);
      }
    }
  }

  const PathProblem& search_;
  const HopTable& hops_;
  std::vector<std::size_t> first_, resources_;  // resources of hop h: from first_[h] to first_[h + 1]
  Costs costs_;
  Clock::time_point end_;
  std::vector<double> distance_;
  std::vector<int> last_;
  FoundPaths found_;
  std::vector<Path> best_;
  double best_fullest_ = 0;
  std::size_t moved_ = 0;
  std::uint64_t settled_ = 0;  // searches so far
};

}  // namespace

Resources Resources::of_links(const Topology& topology) {
  Resources resources;
  for (int link = 0; link < topology.link_count(); ++link) {
    resources.of_link.push_back(link);
    resources.capacity.push_back(topology.link(link).capacity.value());
  }
  return resources;
}

FoundPaths find_paths(const PathProblem& search, double seconds) { return PathSearch(search, seconds).run(); }

}  // namespace tutti
