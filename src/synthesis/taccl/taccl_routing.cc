#include "synthesis/taccl/taccl_routing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "synthesis/elapsed.hpp"
#include "synthesis/taccl/integer_program.hpp"
#include "synthesis/taccl/taccl_start.hpp"

namespace tutti {
namespace {

using Term = IntegerProgram::Term;

constexpr double kNear = 1e-9;
constexpr double kPartForStart = 0.3;  // of the time: for the routes to begin with
constexpr unsigned kSeeds = 16;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Times in the program are multiples of the cheapest transfer, so that its numbers are neither tiny nor huge.
class RoutingProgram {
 public:
  RoutingProgram(const TacclProblem& problem, const TacclBound& bound, double horizon)
      : problem_(problem), model_(problem.model) {
    unit_ = HUGE_VAL;
    for (const TacclLink& link : model_.links) unit_ = std::min(unit_, link.cost());
    horizon_ = horizon / unit_;
    time_ = program_.add_column(bound.time / unit_, horizon_, 1);
    for (int i = 0; i < problem.decisions; ++i) program_.add_binary(0);
    add_arrivals();
    add_reception();
    add_precedence();
    add_sums();
    add_passing_on();
    add_crossings();
    if (model_.own_chunks_first) add_own_chunks_first();
    if (model_.policy != ConnectionPolicy::any) add_policy();
  }

  IntegerProgram& program() { return program_; }
  double seconds(double units) const { return units * unit_; }

  std::vector<double> values_of(const TacclTrees& trees) const {
    std::vector<double> values(at(program_.columns()), 0);
    values[at(time_)] = cost_of(problem_, trees).time / unit_;
    for (const TacclOption& option : problem_.options) {
      const auto& tree = trees[at(option.chunk)];
      if (std::find(tree.begin(), tree.end(), option.link) != tree.end()) values[at(decision(option))] = 1;
    }
    const std::vector<double> arrivals = arrivals_of(problem_, trees);
    for (std::size_t i = 0; i < arrivals.size(); ++i)
      if (const auto column = arrival_.find(problem_.arrival_of[i]); column != arrival_.end())
        values[at(column->second)] = std::max(arrivals[i] / unit_, earliest_[i]);
    const TacclLoads loads = loads_of(problem_, trees);
    for (const auto& [connection, column] : connection_)
      for (std::size_t link = 0; link < loads.links.size(); ++link)
        if (problem_.connection_of[link] == connection && loads.links[link] > 0) values[at(column)] = 1;
    if (extreme_ >= 0) {
      double busiest = 0, idlest = HUGE_VAL;
      for (const auto* kind : {&loads.links, &loads.ports})
        for (const double load : *kind) {
          busiest = std::max(busiest, load);
          idlest = std::min(idlest, load);
        }
      values[at(extreme_)] = (model_.balance == LinkBalance::least_of_the_busiest ? busiest : idlest) / unit_;
    }
    return values;
  }

  TacclTrees trees_of(const std::vector<double>& values) const {
    TacclTrees trees(problem_.chunks.size());
    for (std::size_t chunk = 0; chunk < trees.size(); ++chunk) {
      std::set<int> links;
      for (const int option : problem_.chunks[chunk].options)
        if (values[at(decision(problem_.options[at(option)]))] > 0.5) links.insert(problem_.options[at(option)].link);
      trees[chunk] = in_order(problem_.chunks[chunk], links);
    }
    return trees;
  }

 private:
  int decision(const TacclOption& option) const { return time_ + 1 + option.same; }
  int arrival(int chunk, int rank) const { return arrival_.at(problem_.arrival(chunk, rank)); }
  double cost(int link) const { return model_.links[at(link)].cost() / unit_; }

  /// Links as they are reached from home, without those that lead nowhere wanted.
  std::vector<int> in_order(const TacclChunk& chunk, std::set<int> links) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto link = links.begin(); link != links.end();) {
        const int to = model_.links[at(*link)].to;
        const bool goes_on =
            std::any_of(links.begin(), links.end(), [&](int l) { return model_.links[at(l)].from == to; });
        const bool wanted = std::find(chunk.wanted.begin(), chunk.wanted.end(), to) != chunk.wanted.end();
        changed = changed || (!goes_on && !wanted);
        link = goes_on || wanted ? std::next(link) : links.erase(link);
      }
    }
    std::vector<int> order, ranks = {chunk.home};
    for (std::size_t i = 0; i < ranks.size(); ++i)
      for (const int link : links)
        if (model_.links[at(link)].from == ranks[i]) {
          order.push_back(link);
          ranks.push_back(model_.links[at(link)].to);
        }
    return order;
  }

  /// A column for every rank a chunk may come to, from the earliest time it can be there on.
  void add_arrivals() {
    earliest_.assign(problem_.arrival_of.size(), HUGE_VAL);
    for (int chunk = 0; chunk < static_cast<int>(problem_.chunks.size()); ++chunk) {
      double* earliest = &earliest_[at(chunk * model_.ranks())];
      earliest[problem_.chunks[at(chunk)].home] = 0;
      for (bool changed = true; changed;) {
        changed = false;
        for (const int option : problem_.chunks[at(chunk)].options) {
          const TacclLink& link = problem_.link_of(problem_.options[at(option)]);
          const double there = earliest[link.from] + link.cost() / unit_;
          if (there >= earliest[link.to] - kNear) continue;
          earliest[link.to] = there;
          changed = true;
        }
      }
      for (int rank = 0; rank < model_.ranks(); ++rank)
        if (earliest[rank] < HUGE_VAL && arrival_.count(problem_.arrival(chunk, rank)) == 0)
          arrival_[problem_.arrival(chunk, rank)] =
              program_.add_column(earliest[rank], rank == problem_.chunks[at(chunk)].home ? 0 : horizon_, 0);
    }
  }

  double earliest(int chunk, int rank) const { return earliest_[at(chunk * model_.ranks() + rank)]; }

  /// A rank that wants a chunk gets it once; another at most once, and sends only what it got.
  void add_reception() {
    for (int chunk = 0; chunk < static_cast<int>(problem_.chunks.size()); ++chunk) {
      std::map<int, std::vector<Term>> into;
      for (const int option : problem_.chunks[at(chunk)].options)
        into[problem_.link_of(problem_.options[at(option)]).to].push_back({decision(problem_.options[at(option)]), 1});
      for (const int rank : problem_.chunks[at(chunk)].wanted) program_.equal(into[rank], 1);
      for (const auto& [rank, terms] : into) {
        if (wants(problem_.shape, chunk, rank)) continue;
        std::vector<Term> at_most_one = terms;
        for (Term& term : at_most_one) term.factor = -1;
        program_.at_least(at_most_one, -1);
        for (const int option : problem_.chunks[at(chunk)].options)
          if (problem_.link_of(problem_.options[at(option)]).from == rank) {
            std::vector<Term> sends_what_it_got = terms;
            sends_what_it_got.push_back({decision(problem_.options[at(option)]), -1});
            program_.at_least(sends_what_it_got, 0);
          }
      }
    }
  }

  void add_precedence() {
    for (const TacclOption& option : problem_.options) {
      const TacclLink& link = problem_.link_of(option);
      if (earliest(option.chunk, link.from) == HUGE_VAL) continue;
      const double latest = link.from == problem_.chunks[at(option.chunk)].home ? 0 : horizon_;
      const double slack = std::max(0.0, latest + cost(option.link) - earliest(option.chunk, link.to));
      program_.at_least(
          {{arrival(option.chunk, link.to), 1}, {arrival(option.chunk, link.from), -1}, {decision(option), -slack}},
          cost(option.link) - slack);
    }
  }

  void add_sums() {
    std::vector<std::vector<Term>> links(model_.links.size()), ports(model_.ports.size());
    for (const TacclOption& option : problem_.options) {
      links[at(option.link)].push_back({decision(option), -cost(option.link)});
      for (const int port : problem_.ports_of[at(option.link)])
        ports[at(port)].push_back({decision(option), -cost(option.link)});
    }
    if (model_.balance != LinkBalance::none) {
      const bool least = model_.balance == LinkBalance::least_of_the_busiest;
      extreme_ = program_.add_column(0, horizon_, least ? kBalanceWeight : -kBalanceWeight);
      for (const auto* kind : {&links, &ports})
        for (std::vector<Term> terms : *kind) {
          if (!least)
            for (Term& term : terms) term.factor = -term.factor;
          terms.push_back({extreme_, least ? 1.0 : -1.0});
          program_.at_least(terms, 0);
        }
    }
    for (std::size_t link = 0; link < links.size(); ++link)
      if (problem_.ports_of[link].empty()) bound_time(links[link]);
    for (const auto& terms : ports) bound_time(terms);
  }

  void bound_time(std::vector<Term> terms) {
    if (terms.empty()) return;
    terms.push_back({time_, 1});
    program_.at_least(std::move(terms), 0);
  }

  /// Time is up when all that a rank got has been passed on through its ports.
  void add_passing_on() {
    for (int chunk = 0; chunk < static_cast<int>(problem_.chunks.size()); ++chunk) {
      std::map<std::pair<int, int>, std::vector<Term>> through;  // by rank and port; port -1: none
      for (const int index : problem_.chunks[at(chunk)].options) {
        const TacclOption& option = problem_.options[at(index)];
        through[{problem_.link_of(option).to, -1}];
        for (const int port : problem_.ports_of[at(option.link)])
          if (model_.ports[at(port)].outgoing)
            through[{problem_.link_of(option).from, port}].push_back({decision(option), -cost(option.link)});
      }
      for (auto& [where, terms] : through) {
        if (earliest(chunk, where.first) == HUGE_VAL) continue;
        terms.push_back({arrival(chunk, where.first), -1});
        bound_time(terms);
      }
    }
  }

  /// Every node that wants a chunk gets it from the chunk's home node.
  void add_crossings() {
    for (int chunk = 0; chunk < static_cast<int>(problem_.chunks.size()); ++chunk) {
      std::map<int, std::vector<Term>> into;
      for (const int rank : problem_.chunks[at(chunk)].wanted)
        if (model_.node_of(rank) != model_.node_of(problem_.chunks[at(chunk)].home)) into[model_.node_of(rank)];
      for (const int option : problem_.chunks[at(chunk)].options)
        if (const TacclLink& link = problem_.link_of(problem_.options[at(option)]); link.remote)
          into[model_.node_of(link.to)].push_back({decision(problem_.options[at(option)]), 1});
      for (const auto& [node, terms] : into) program_.at_least(terms, 1);
    }
  }

  void add_own_chunks_first() {
    std::map<int, std::vector<const TacclOption*>> own, others;  // by link
    for (const TacclOption& option : problem_.options)
      if (const TacclLink& link = problem_.link_of(option); link.remote)
        (problem_.chunks[at(option.chunk)].home == link.from ? own : others)[option.link].push_back(&option);
    for (const auto& [link, firsts] : own)
      for (const TacclOption* first : firsts)
        for (const TacclOption* later : others[link]) {
          const int to = model_.links[at(link)].to;
          const double slack = horizon_ + cost(link) - earliest(later->chunk, to);
          program_.at_least({{arrival(later->chunk, to), 1},
                             {arrival(first->chunk, to), -1},
                             {decision(*first), -slack},
                             {decision(*later), -slack}},
                            cost(link) - 2 * slack);
        }
  }

  /// Connections of the first node that are used at all.
  void add_policy() {
    const bool fewest = model_.policy == ConnectionPolicy::fewest;
    std::map<int, std::vector<Term>> uses;  // by link
    std::map<int, int> size;                // by connection
    for (int link = 0; link < static_cast<int>(model_.links.size()); ++link)
      if (model_.links[at(link)].from < model_.gpus && model_.links[at(link)].to < model_.gpus) {
        ++size[problem_.connection_of[at(link)]];
        uses[link];
      }
    for (const auto& [connection, count] : size)
      connection_[connection] = program_.add_binary(connection_weight(problem_) / unit_ * count);
    for (const TacclOption& option : problem_.options) {
      const auto link = uses.find(option.link);
      if (link == uses.end()) continue;
      link->second.push_back({decision(option), 1});
      if (fewest)
        program_.at_least({{connection_.at(problem_.connection_of[at(option.link)]), 1}, {decision(option), -1}}, 0);
    }
    if (fewest) return;
    for (auto& [link, terms] : uses) {
      terms.push_back({connection_.at(problem_.connection_of[at(link)]), -1});
      program_.at_least(terms, 0);
    }
  }

  const TacclProblem& problem_;
  const TacclModel& model_;
  IntegerProgram program_;
  double unit_ = 1;     // seconds
  double horizon_ = 0;  // units
  int time_ = 0, extreme_ = -1;
  std::map<int, int> arrival_, connection_;  // columns
  std::vector<double> earliest_;             // [chunk * ranks + rank] units
};

/// The longest any routes can take that are no worse than `cost`.
double horizon_of(const TacclBound& bound, const TacclCost& cost) {
  return cost.objective - (bound.objective - bound.time) + kNear * bound.time;
}

/// The best of several attempts, unless one meets the bound.
std::optional<TacclTrees> find_start(const TacclProblem& problem, const TacclBound& bound, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<TacclTrees> best;
  double objective = HUGE_VAL;
  for (unsigned seed = 0; seed < kSeeds && seconds_since(begin) < seconds; ++seed) {
    auto trees = find_routes(problem, bound, seed, seconds - seconds_since(begin));
    if (!trees) break;
    const double cost = cost_of(problem, *trees).objective;
    if (cost < objective) {
      objective = cost;
      best = std::move(trees);
    }
    if (objective <= bound.objective + kNear * bound.time) break;
  }
  return best;
}

}  // namespace

Result<TacclRouting> route_chunks(const TacclProblem& problem, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  const TacclBound bound = bound_of(problem);
  const auto start = find_start(problem, bound, seconds * kPartForStart);
  TacclRouting routing;
  routing.bound = bound.objective;
  double horizon = 0;
  if (start) {
    routing.trees = *start;
    routing.cost = cost_of(problem, *start);
    horizon = horizon_of(bound, routing.cost);
  } else {
    for (const TacclLink& link : problem.model.links) horizon = std::max(horizon, link.cost());
    horizon *= double(problem.chunks.size()) * problem.model.ranks();
  }
  RoutingProgram formulation(problem, bound, horizon);
  IntegerProgram& program = formulation.program();
  routing.rows = program.rows();
  routing.binaries = program.binaries();
  routing.optimal = start && routing.cost.objective <= bound.objective + kNear * bound.time;
  if (routing.optimal) return routing;
  if (start) program.set_start(formulation.values_of(*start));
  const auto found = program.solve(std::max(0.1, seconds - seconds_since(begin)));
  if (!found)
    return fail(found.error().code,
                found.error().code == ErrorCode::invalid_argument
                    ? "the sketch cannot be met: no routes are the same under all of its symmetry_offsets"
                    : fmt::format("no routes found in {:.1f} s", seconds));
  const TacclTrees trees = formulation.trees_of(found->values);
  if (keeps_to(problem, trees))
    if (const TacclCost cost = cost_of(problem, trees); !start || cost.objective < routing.cost.objective) {
      routing.trees = trees;
      routing.cost = cost;
    }
  if (routing.trees.empty())
    return fail(ErrorCode::internal, "Cbc's routes do not bring every chunk where it is wanted");
  routing.bound = std::max(routing.bound, formulation.seconds(found->bound));
  routing.optimal = found->optimal;
  return routing;
}

}  // namespace tutti
