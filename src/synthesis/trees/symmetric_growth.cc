#include "synthesis/trees/symmetric_growth.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "topology/disjoint_sets.hpp"

namespace tutti {
namespace {

constexpr double kRounding = 1e-9;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Ranks that classes faster than some time join.
std::vector<int> islands_below(const SymmetricGraph& graph, const std::vector<double>& time_of_class, double time) {
  DisjointSets joined(graph.ranks);
  const std::vector<int> offsets = graph.group.all();
  for (std::size_t i = 0; i < graph.classes.size(); ++i)
    if (time_of_class[i] < time * (1 - kRounding))
      for (const int by : offsets)
        joined.unite(graph.group.translated(graph.classes[i].from, by),
                     graph.group.translated(graph.classes[i].to, by));
  std::vector<int> islands(at(graph.ranks));
  for (int rank = 0; rank < graph.ranks; ++rank) islands[at(rank)] = joined.find(rank);
  return islands;
}

/// Classes of one representative with the same links: they are busy together.
struct SharedPort {
  int representative = 0;
  bool crosses = false;  // leads to ranks that no faster classes lead to
  int level = 0;         // of islands
  std::vector<int> orbits;
  std::vector<int> classes;
};

/// Islands of the ports of one speed, and which of them each tree has entered.
struct IslandLevel {
  std::vector<int> island_of;              // [rank]
  std::vector<std::vector<char>> entered;  // [tree][island]
  std::vector<int> missing;                // [tree] islands not entered
  std::int64_t missing_in_all = 0;
};

class SymmetricTreeGrowth {
 public:
  SymmetricTreeGrowth(const SymmetricGraph& graph, int copies, double most_time)
      : graph_(graph),
        trees_(static_cast<int>(graph.representatives.size()) * copies),
        depth_(at(trees_), std::vector<int>(at(graph.ranks), -1)),
        free_(graph.time_of_use.size(), 0),
        uses_(graph.time_of_use.size(), 0) {
    for (const double time : graph.time_of_use)
      budget_.push_back(time > 0 ? static_cast<std::int64_t>(most_time * (1 + kRounding) / time) : 0);
    make_ports();
    for (int tree = 0; tree < trees_; ++tree) join(tree, graph.representatives[at(tree / copies)], 0, 0);
  }

  Result<SymmetricGrowth> run() {
    const std::size_t all = at(trees_) * (at(graph_.ranks) - 1);
    while (result_.hops.size() < all) {
      if (turns_.empty() && !wake_ports()) return fail(ErrorCode::unsupported, "trees moved by symmetries got stuck");
      const auto [time, index] = turns_.top();
      turns_.pop();
      take_turn(index, time);
    }
    for (std::size_t orbit = 0; orbit < uses_.size(); ++orbit)
      result_.time = std::max(result_.time, static_cast<double>(uses_[orbit]) * graph_.time_of_use[orbit]);
    return std::move(result_);
  }

 private:
  /// A rank that has a tree, and the classes of a port it has not tried yet.
  struct TreeSource {
    int depth = 0;
    double since = 0;  // it arrived, or was last used
    int tree = 0;
    int rank = 0;
    std::size_t next = 0;

    bool operator<(const TreeSource& other) const {  // the largest comes first
      return std::tie(depth, since, tree, rank) > std::tie(other.depth, other.since, other.tree, other.rank);
    }
  };
  struct LinkChoice {
    int tree = 0;
    int rank = 0;
    int index = 0;  // of the class
  };
  struct PortState {
    SharedPort port;
    double duration = 0;
    bool waits = false;  // has no turn
    std::priority_queue<TreeSource> sources;
    std::deque<LinkChoice> second_best;  // where faster links lead, too
  };

  double time_of(const LinkClass& link) const {
    double slowest = 0;
    for (const int orbit : link.orbits) slowest = std::max(slowest, graph_.time_of_use[at(orbit)]);
    return slowest;
  }

  void make_ports() {
    std::vector<double> times;
    for (const LinkClass& link : graph_.classes) times.push_back(time_of(link));
    std::map<double, int> levels;
    for (const double time : times)
      if (levels.emplace(time, static_cast<int>(levels.size())).second) levels_.push_back(make_level(times, time));
    std::map<std::tuple<int, bool, std::vector<int>>, std::size_t> known;
    ports_of_.resize(at(graph_.ranks));
    for (std::size_t i = 0; i < times.size(); ++i) {
      const LinkClass& link = graph_.classes[i];
      const auto& islands = levels_[at(levels[times[i]])].island_of;
      const bool crosses = islands[at(link.from)] != islands[at(link.to)];
      const auto [place, is_new] = known.emplace(std::tuple(link.from, crosses, link.orbits), ports_.size());
      if (is_new) {
        ports_of_[at(link.from)].push_back(static_cast<int>(ports_.size()));
        ports_.push_back({{link.from, crosses, levels[times[i]], link.orbits, {}}, times[i], true, {}, {}});
      }
      ports_[place->second].port.classes.push_back(static_cast<int>(i));
    }
  }

  IslandLevel make_level(const std::vector<double>& times, double time) const {
    IslandLevel level{islands_below(graph_, times, time), {}, {}, 0};
    int islands = 0;
    for (int rank = 0; rank < graph_.ranks; ++rank) islands += level.island_of[at(rank)] == rank ? 1 : 0;
    level.entered.assign(at(trees_), std::vector<char>(at(graph_.ranks), 0));
    level.missing.assign(at(trees_), islands);
    level.missing_in_all = static_cast<std::int64_t>(islands) * trees_;
    return level;
  }

  void join(int tree, int rank, int depth, double arrival) {
    depth_[at(tree)][at(rank)] = depth;
    result_.height = std::max(result_.height, depth);
    for (IslandLevel& level : levels_) {
      char& entered = level.entered[at(tree)][at(level.island_of[at(rank)])];
      if (entered != 0) continue;
      entered = 1;
      --level.missing[at(tree)];
      --level.missing_in_all;
    }
    for (const int index : ports_of_[at(graph_.group.representative_of(rank))]) {
      PortState& state = ports_[at(index)];
      state.sources.push({depth, arrival, tree, rank, 0});
      if (std::exchange(state.waits, false)) turns_.emplace(std::max(arrival, free_from(state.port)), index);
    }
  }

  /// When no port has a turn: those that kept to what only they can do may do the rest.
  bool wake_ports() {
    for (std::size_t i = 0; i < ports_.size(); ++i)
      if (ports_[i].waits && !ports_[i].second_best.empty() && may_help(ports_[i].port)) {
        ports_[i].waits = false;
        turns_.emplace(free_from(ports_[i].port), static_cast<int>(i));
      }
    return !turns_.empty();
  }

  double free_from(const SharedPort& port) const {
    double time = 0;
    for (const int orbit : port.orbits) time = std::max(time, free_[at(orbit)]);
    return time;
  }

  bool has_budget(const SharedPort& port, std::int64_t uses) const {
    return std::all_of(port.orbits.begin(), port.orbits.end(),
                       [&](int orbit) { return uses_[at(orbit)] + uses <= budget_[at(orbit)]; });
  }

  /// Whether it has more budget than what only ports of its kind can do.
  bool may_help(const SharedPort& port) const { return has_budget(port, levels_[at(port.level)].missing_in_all + 1); }

  void take_turn(int index, double time) {
    PortState& state = ports_[at(index)];
    if (!has_budget(state.port, 1)) return;  // for good
    if (const double start = free_from(state.port); start > time) {
      turns_.emplace(start, index);
      return;
    }
    double next_arrival = -1;
    if (const auto choice = choose(state, time, next_arrival)) {
      carry(state, *choice, time);
      turns_.emplace(free_from(state.port), index);
    } else if (next_arrival > time) {
      turns_.emplace(next_arrival, index);
    } else {
      state.waits = true;
    }
  }

  /// From the shallowest source that has the tree at that time. `next_arrival`: when another will.
  std::optional<LinkChoice> choose(PortState& state, double time, double& next_arrival) {
    std::vector<TreeSource> later;
    std::optional<LinkChoice> found;
    while (!found && !state.sources.empty()) {
      TreeSource source = state.sources.top();
      state.sources.pop();
      if (source.since > time) {
        next_arrival = next_arrival < 0 ? source.since : std::min(next_arrival, source.since);
        later.push_back(source);
        continue;
      }
      found = choose_from(state, source);
      if (!found) continue;
      source.since = time;
      later.push_back(source);
    }
    for (const TreeSource& source : later) state.sources.push(source);
    return found ? found : choose_second_best(state);
  }

  std::optional<LinkChoice> choose_from(PortState& state, TreeSource& source) {
    const IslandLevel& level = levels_[at(state.port.level)];
    while (source.next < state.port.classes.size()) {
      const int index = state.port.classes[source.next];
      const int target = target_of(index, source.rank);
      const LinkChoice choice{source.tree, source.rank, index};
      if (depth_[at(source.tree)][at(target)] < 0) {
        const bool only_way = !state.port.crosses || !level.entered[at(source.tree)][at(level.island_of[at(target)])];
        if (only_way || (level.missing[at(source.tree)] == 0 && may_help(state.port))) {
          ++source.next;
          return choice;
        }
        if (level.missing[at(source.tree)] == 0) return std::nullopt;
        state.second_best.push_back(choice);
      }
      ++source.next;
    }
    return std::nullopt;
  }

  std::optional<LinkChoice> choose_second_best(PortState& state) {
    while (!state.second_best.empty() && may_help(state.port)) {
      const LinkChoice choice = state.second_best.front();
      state.second_best.pop_front();
      if (depth_[at(choice.tree)][at(target_of(choice.index, choice.rank))] < 0) return choice;
    }
    return std::nullopt;
  }

  int target_of(int index, int rank) const {
    return graph_.group.translated(graph_.classes[at(index)].to, graph_.group.offset_of(rank));
  }

  void carry(const PortState& state, const LinkChoice& choice, double time) {
    const LinkClass& link = graph_.classes[at(choice.index)];
    for (const int orbit : link.orbits) {
      free_[at(orbit)] = std::max(free_[at(orbit)], time) + graph_.time_of_use[at(orbit)];
      ++uses_[at(orbit)];
    }
    const int target = target_of(choice.index, choice.rank);
    result_.hops.push_back({choice.tree, choice.rank, target, link.channel, time});
    join(choice.tree, target, depth_[at(choice.tree)][at(choice.rank)] + 1, time + state.duration);
  }

  const SymmetricGraph& graph_;
  int trees_;
  std::vector<std::vector<int>> depth_;      // [tree][rank]; -1: not there yet
  std::vector<double> free_;                 // [orbit] from when on
  std::vector<std::int64_t> uses_, budget_;  // [orbit]
  std::vector<IslandLevel> levels_;
  std::vector<PortState> ports_;
  std::vector<std::vector<int>> ports_of_;  // [representative]
  using Turn = std::pair<double, int>;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
  SymmetricGrowth result_;
};

}  // namespace

SymmetricGraph make_symmetric_graph(Routes& routes, const FoundTranslations& found, Wiring wiring) {
  const Topology& topology = routes.topology();
  SymmetricGraph graph{found.group, topology.ranks(), {}, {}, {}};
  std::vector<int> links_of_orbit(found.orbit_of_link.size(), 0), number(found.orbit_of_link.size(), -1);
  for (const int orbit : found.orbit_of_link) ++links_of_orbit[at(orbit)];
  for (int link = 0; link < topology.link_count(); ++link) {
    if (found.orbit_of_link[at(link)] != link) continue;
    number[at(link)] = static_cast<int>(graph.time_of_use.size());
    graph.time_of_use.push_back(found.group.order() /
                                (links_of_orbit[at(link)] * topology.link(link).capacity.value()));
  }
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    if (found.group.representative_of(rank) != rank) continue;
    graph.representatives.push_back(rank);
    for (const RankLink& link : rank_links_from(routes, wiring, rank))
      for (std::size_t channel = 0; channel < link.routes.size(); ++channel) {
        LinkClass one{rank, link.to, static_cast<int>(channel), {}};
        for (const int physical : link.routes[channel])
          one.orbits.push_back(number[at(found.orbit_of_link[at(physical)])]);
        graph.classes.push_back(std::move(one));
      }
  }
  return graph;
}

Result<SymmetricGrowth> grow_symmetric(const SymmetricGraph& graph, int copies, double most_time) {
  return SymmetricTreeGrowth(graph, copies, most_time).run();
}

}  // namespace tutti
