#include "bound/lengths.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <coin/ClpSimplex.hpp>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "bound/certificate.hpp"
#include "topology/disjoint_sets.hpp"

namespace tutti {
namespace {

constexpr double kNear = 1e-3, kExact = 1e-6;  // where weights and where columns stop
constexpr int kRoundsBeforeColumns = 30;
constexpr std::size_t kMostForColumns = 5'000;  // sources times unknowns: above, the linear programs take too long

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Links in classes of those that symmetries map to one another, and one source for each orbit.
struct Problem {
  const Network* network;
  std::vector<int> class_of;           // [link]
  std::vector<double> class_capacity;  // of one link
  std::vector<double> class_size;      // links
  std::vector<int> sources;            // vertices
  std::vector<double> weight;          // [source] ranks in its orbit

  std::size_t classes() const { return class_capacity.size(); }
};

/// Each link is put with its image; links with equal ends and figures are one to a symmetry.
std::vector<int> classes_of_links(const Topology& topology, const std::vector<Permutation>& symmetries) {
  using Looks = std::tuple<int, int, Rational, Rational>;
  std::map<Looks, int> index;
  DisjointSets classes(topology.link_count());
  for (int i = 0; i < topology.link_count(); ++i) {
    const Link& link = topology.link(i);
    const auto [same, fresh] = index.emplace(Looks{link.from, link.to, link.capacity, link.latency}, i);
    if (!fresh) classes.unite(i, same->second);
  }
  for (const Permutation& image : symmetries)
    for (int i = 0; i < topology.link_count(); ++i) {
      const Link& link = topology.link(i);
      classes.unite(i, index.at({image[at(link.from)], image[at(link.to)], link.capacity, link.latency}));
    }
  return classes.numbers();
}

Problem make_problem(const Network& network, const Symmetries& symmetries) {
  const Topology& topology = *network.topology;
  Problem problem{&network, classes_of_links(topology, symmetries.generators), {}, {}, {}, {}};
  for (std::size_t i = 0; i < problem.class_of.size(); ++i) {
    const std::size_t own = at(problem.class_of[i]);
    if (own >= problem.classes()) {
      problem.class_capacity.resize(own + 1, 0);
      problem.class_size.resize(own + 1, 0);
    }
    problem.class_capacity[own] = static_cast<double>(network.capacity[i]);
    problem.class_size[own] += 1;
  }
  for (const int rank : symmetries.representatives()) {
    problem.sources.push_back(topology.gpu(rank));
    problem.weight.push_back(
        static_cast<double>(std::count(symmetries.orbit_of.begin(), symmetries.orbit_of.end(), rank)));
  }
  return problem;
}

/// How often the shortest paths from one source to all GPUs use links of each class.
class ShortestPaths {
 public:
  explicit ShortestPaths(const Problem& problem) : problem_(problem) {
    const std::size_t vertices = problem.network->topology->vertices().size();
    distance_.resize(vertices);
    through_.resize(vertices);
    below_.resize(vertices);
  }

  std::vector<double> loads(int source, const std::vector<double>& length) {
    settle(source, length);
    const Topology& topology = *problem_.network->topology;
    std::vector<double> loads(problem_.classes(), 0);
    std::fill(below_.begin(), below_.end(), 0);
    for (auto vertex = order_.rbegin(); vertex != order_.rend() && *vertex != source; ++vertex) {
      if (topology.vertex(*vertex).kind == VertexKind::gpu) below_[at(*vertex)] += 1;
      const int link = through_[at(*vertex)];
      loads[at(problem_.class_of[at(link)])] += below_[at(*vertex)];
      below_[at(topology.link(link).from)] += below_[at(*vertex)];
    }
    return loads;
  }

 private:
  void settle(int source, const std::vector<double>& length) {
    const Topology& topology = *problem_.network->topology;
    std::fill(distance_.begin(), distance_.end(), HUGE_VAL);
    order_.clear();
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    distance_[at(source)] = 0;
    through_[at(source)] = -1;
    open.push({0, source});
    std::vector<char> done(distance_.size(), 0);
    while (!open.empty()) {
      const auto [reached, vertex] = open.top();
      open.pop();
      if (done[at(vertex)]) continue;
      done[at(vertex)] = 1;
      order_.push_back(vertex);
      for (const int link : topology.out_links(vertex)) {
        const int next = topology.link(link).to;
        const double candidate = reached + length[at(problem_.class_of[at(link)])];
        if (candidate >= distance_[at(next)]) continue;
        distance_[at(next)] = candidate;
        through_[at(next)] = link;
        open.push({candidate, next});
      }
    }
  }

  const Problem& problem_;
  std::vector<double> distance_, below_;
  std::vector<int> through_, order_;
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// The best lengths so far, what they prove, and what no lengths can exceed; in demand over supply.
class LengthSearch {
 public:
  LengthSearch(const Network& network, const Symmetries& symmetries, double seconds)
      : problem_(make_problem(network, symmetries)),
        paths_(problem_),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  FoundLengths run() {
    const bool columns = problem_.sources.size() * problem_.classes() <= kMostForColumns;
    if (columns) {
      weigh(kRoundsBeforeColumns, kExact);
      generate_columns();
    } else {
      weigh(std::numeric_limits<int>::max(), kNear);
    }
    return result();
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool out_of_time() const { return Clock::now() >= end_; }
  bool within(double tolerance) const { return limit_ < best_value_ * (1 + tolerance); }

  double supply(const std::vector<double>& length) const {
    double sum = 0;
    for (std::size_t c = 0; c < length.size(); ++c)
      sum += problem_.class_size[c] * problem_.class_capacity[c] * length[c];
    return sum;
  }

  /// Loads from every source; notes the lengths if they prove more than any before.
  std::vector<std::vector<double>> evaluate(const std::vector<double>& length) {
    std::vector<std::vector<double>> loads;
    double demand = 0;
    for (std::size_t s = 0; s < problem_.sources.size(); ++s) {
      loads.push_back(paths_.loads(problem_.sources[s], length));
      demand += problem_.weight[s] * dot(loads.back(), length);
    }
    const double value = demand / supply(length);
    if (value > best_value_) {
      best_value_ = value;
      best_ = length;
    }
    return loads;
  }

  /// Multiplicative weights: links that the shortest paths fill get longer. The mean of all rounds' paths is a flow,
  /// and how full it makes the fullest link is more than any lengths can prove.
  void weigh(int rounds, double tolerance) {
    std::vector<double> weight(problem_.classes(), 1.0), length(problem_.classes()), sum(problem_.classes(), 0.0);
    for (int round = 1; round <= rounds && !out_of_time() && !within(tolerance); ++round) {
      // Weights below a thousandth of a millionth of the largest change nothing, and would vanish in the end.
      const double largest = *std::max_element(weight.begin(), weight.end());
      for (std::size_t c = 0; c < weight.size(); ++c) {
        weight[c] = std::max(weight[c] / largest, 1e-9);
        length[c] = weight[c] / problem_.class_capacity[c];
      }
      const auto loads = evaluate(length);
      std::vector<double> fill(problem_.classes(), 0.0);
      for (std::size_t s = 0; s < loads.size(); ++s)
        for (std::size_t c = 0; c < fill.size(); ++c) fill[c] += problem_.weight[s] * loads[s][c];
      for (std::size_t c = 0; c < fill.size(); ++c) fill[c] /= problem_.class_size[c] * problem_.class_capacity[c];
      const double fullest = *std::max_element(fill.begin(), fill.end());
      double fullest_mean = 0;
      for (std::size_t c = 0; c < fill.size(); ++c) {
        sum[c] += fill[c];
        fullest_mean = std::max(fullest_mean, sum[c] / round);
        weight[c] *= std::exp(fill[c] / fullest / std::sqrt(round));
      }
      limit_ = std::min(limit_, fullest_mean);
    }
  }

  /// Kelley's cutting planes: the linear program over all paths seen so far proposes lengths, whose shortest paths are
  /// added. Its value is a limit; where the two meet, the lengths are the best there are.
  void generate_columns() {
    const int classes = static_cast<int>(problem_.classes()), sources = static_cast<int>(problem_.sources.size());
    ClpSimplex program;
    program.setLogLevel(0);
    program.resize(0, classes + sources);
    for (int s = 0; s < sources; ++s) program.setObjectiveCoefficient(classes + s, -problem_.weight[at(s)]);
    // Unknowns are length times capacity, so that all are of a size; together they make one.
    std::vector<int> columns(at(classes));
    std::iota(columns.begin(), columns.end(), 0);
    program.addRow(classes, columns.data(), problem_.class_size.data(), 1.0, 1.0);
    add_paths(program, evaluate(best_));
    while (!out_of_time() && !within(kExact)) {
      program.setMaximumSeconds(std::chrono::duration<double>(end_ - Clock::now()).count());
      program.dual();
      if (program.status() != 0) return;
      limit_ = std::min(limit_, -program.objectiveValue());
      std::vector<double> proposed(at(classes));
      for (int c = 0; c < classes; ++c)
        proposed[at(c)] = std::max(program.primalColumnSolution()[c], 0.0) / problem_.class_capacity[at(c)];
      // Half way to the best so far the paths say more than at the corner the program sits in.
      const double scale = supply(proposed) / supply(best_);
      std::vector<double> between = proposed;
      for (std::size_t c = 0; c < between.size(); ++c) between[c] = (between[c] + scale * best_[c]) / 2;
      const bool moved = add_paths(program, evaluate(between));
      if (!add_paths(program, evaluate(proposed)) && !moved) return;
    }
  }

  /// One row a source: its demand is no more than these paths make of it. False where all rows were there.
  bool add_paths(ClpSimplex& program, const std::vector<std::vector<double>>& loads) {
    const int classes = static_cast<int>(problem_.classes());
    bool added = false;
    for (std::size_t s = 0; s < loads.size(); ++s) {
      if (!seen_.insert({s, loads[s]}).second) continue;
      std::vector<int> columns{classes + static_cast<int>(s)};
      std::vector<double> elements{1.0};
      for (int c = 0; c < classes; ++c) {
        if (loads[s][at(c)] == 0) continue;
        columns.push_back(c);
        elements.push_back(-loads[s][at(c)] / problem_.class_capacity[at(c)]);
      }
      program.addRow(static_cast<int>(columns.size()), columns.data(), elements.data(), -COIN_DBL_MAX, 0.0);
      added = true;
    }
    return added;
  }

  FoundLengths result() const {
    const double largest = *std::max_element(best_.begin(), best_.end());
    FoundLengths result;
    for (const int own : problem_.class_of)
      result.of_links.push_back(std::llround(best_[at(own)] / largest * static_cast<double>(kLongest)));
    const double unit = problem_.network->capacity_unit.value() * problem_.network->topology->ranks();
    if (std::isfinite(limit_)) result.rate_limit = limit_ / unit;
    return result;
  }

  Problem problem_;
  ShortestPaths paths_;
  Clock::time_point end_;
  std::vector<double> best_;  // [class]
  double best_value_ = 0;
  double limit_ = HUGE_VAL;
  std::set<std::pair<std::size_t, std::vector<double>>> seen_;
};

}  // namespace

FoundLengths find_lengths(const Network& network, const Symmetries& symmetries, double seconds) {
  return LengthSearch(network, symmetries, seconds).run();
}

}  // namespace tutti
