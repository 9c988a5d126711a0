#include "synthesis/trees/symmetric_trees.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/clock.hpp"
#include "bound/cuts.hpp"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Losses to try, one after the other.
constexpr std::array kLosses = {0.0, 0.001, 0.003, 0.01, 0.02, 0.04, 0.08};

/// Time of a tree of one byte from each rank, which no trees can beat.
double least_time(const Network& network, const std::vector<int>& representatives) {
  const Topology& topology = *network.topology;
  std::vector<int> sinks;
  for (const int representative : representatives) sinks.push_back(topology.gpu(representative));
  const Marks cut = tightest_gather_cut(network, sinks);
  const Rational capacity = Rational(network.capacity_out_of(cut)) * network.capacity_unit;
  return gpus_in(topology, cut) / capacity.value();
}

SymmetricTrees named(const SymmetricGraph& graph, int copies, SymmetricGrowth grown, double least) {
  return {graph.group,
          graph.ranks,
          graph.representatives,
          copies,
          std::move(grown.hops),
          grown.time / (static_cast<double>(graph.ranks) * copies),
          grown.time / (least * copies) - 1,
          grown.height};
}

using Way = std::tuple<int, int, int>;  // from a representative, to a rank, on a channel

/// When each way is used so often, and so is every one it is moved to: the time of the busiest link, by counting.
double busiest_time(Routes& routes, const Translations& group, const std::vector<int>& offsets,
                    const std::map<Way, std::int64_t>& uses) {
  const Topology& topology = routes.topology();
  std::vector<std::int64_t> loads(at(topology.link_count()), 0);
  for (const auto& [way, count] : uses) {
    const auto [from, to, channel] = way;
    for (const int by : offsets)
      for (const int link : routes.links(group.translated(from, by), group.translated(to, by), channel))
        loads[at(link)] += count;
  }
  double busiest = 0;
  for (int link = 0; link < topology.link_count(); ++link)
    busiest = std::max(busiest, static_cast<double>(loads[at(link)]) / topology.link(link).capacity.value());
  return busiest;
}

}  // namespace

Result<SymmetricTrees> find_symmetric_trees(Routes& routes, const SymmetricOptions& options, double seconds_limit) {
  const Deadline deadline = Deadline::in(seconds_limit);
  const auto network = Network::of(routes.topology());
  if (!network) return tl::unexpected(network.error());
  const FoundTranslations found = find_translations(routes.topology());
  if (found.group.order() < options.least_order)
    return fail(ErrorCode::unsupported, fmt::format("only {} translations of {} ranks were found", found.group.order(),
                                                    routes.topology().ranks()));
  const SymmetricGraph graph = make_symmetric_graph(routes, found, Wiring::rails);
  const double least = least_time(*network, graph.representatives);
  const auto try_all = [&](double least_loss, double most_loss) -> Result<SymmetricTrees> {
    for (int copies = 1; copies <= options.most_trees; ++copies)
      for (const double loss : kLosses) {
        if (loss < least_loss || loss > most_loss) continue;
        if (deadline.passed()) return fail(ErrorCode::timed_out, "symmetric trees: out of time");
        if (auto grown = grow_symmetric(graph, copies, least * copies * (1 + loss)))
          return named(graph, copies, std::move(*grown), least);
      }
    return fail(ErrorCode::unsupported, "trees moved by symmetries always got stuck");
  };
  // The fewest trees that are good enough; else the best.
  auto trees = try_all(0, options.enough);
  for (const double loss : kLosses)
    if (!trees && trees.error().code == ErrorCode::unsupported && loss > options.enough) trees = try_all(loss, loss);
  return trees;
}

PackedTrees expand(Routes& routes, const SymmetricTrees& trees) {
  const Translations& group = trees.group;
  const std::vector<int> offsets = group.all();
  PackedTrees packed;
  packed.schedule = {"symmetric trees", {Collective::all_gather, trees.ranks, 0, trees.copies}, {}, group};
  packed.height = trees.height;
  std::map<Way, std::int64_t> uses;
  for (const SymmetricHop& hop : trees.hops) {
    const int to_representative = group.opposite(group.offset_of(hop.from));
    ++uses[{group.representative_of(hop.from), group.translated(hop.to, to_representative), hop.channel}];
    const int root = trees.representatives[at(hop.tree / trees.copies)];
    packed.schedule.transfers.push_back({root * trees.copies + hop.tree % trees.copies, hop.from, hop.to, hop.channel});
  }
  packed.rate = busiest_time(routes, group, offsets, uses) / (static_cast<double>(trees.ranks) * trees.copies);
  return packed;
}

}  // namespace tutti
