#include "synthesis/greedy/greedy.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.hpp"
#include "synthesis/greedy/greedy_collect.hpp"
#include "synthesis/greedy/greedy_spread.hpp"
#include "synthesis/greedy/timed_network.hpp"

namespace tutti {

namespace {

using Transfers = Result<std::vector<Transfer>>;

TimedNetwork network_for(Routes& routes, const Shape& shape, const GreedyOptions& options) {
  const int pieces = chunks_of_vector(shape);
  // Neither is better in general: detours over the fabric save time and take it from what must leave the node.
  const double loop_gain = options.seed % 2 == 0 ? 1 : 1.25;
  return {routes, options.bytes / pieces, static_cast<double>(chunks_of(shape)) * shape.ranks, loop_gain};
}

Transfers scatter(const Topology& topology, const Shape& shape, const GreedyOptions& options, Deadline deadline) {
  const Topology reversed = topology.reversed();
  Routes routes(reversed);
  Shape gather = shape;
  gather.collective = Collective::gather;
  const TimedNetwork network = network_for(routes, gather, options);
  Transfers transfers = collect(network, reversed, gather, options, Direction::backwards, deadline);
  if (!transfers) return transfers;
  std::reverse(transfers->begin(), transfers->end());
  for (Transfer& transfer : *transfers) std::swap(transfer.from, transfer.to);
  return transfers;
}

}  // namespace

Result<Schedule> greedy_schedule(Routes& routes, Collective collective, const GreedyOptions& options,
                                 double seconds_limit) {
  const Deadline deadline = Deadline::in(seconds_limit);
  const Shape shape{collective, routes.topology().ranks(), options.root, options.chunks};
  if (options.chunks < 1 || options.root < 0 || options.root >= shape.ranks)
    return fail(ErrorCode::invalid_argument,
                fmt::format("greedy: {} chunks, root {}; expected at least 1, and a root below {}", options.chunks,
                            options.root, shape.ranks));
  const auto transfers = [&]() -> Transfers {
    if (collective == Collective::scatter) return scatter(routes.topology(), shape, options, deadline);
    TimedNetwork network = network_for(routes, shape, options);
    if (collective == Collective::gather)
      return collect(network, routes.topology(), shape, options, Direction::onward, deadline);
    if (collective == Collective::all_gather || collective == Collective::broadcast)
      return spread(network, shape, options, deadline);
    return fail(ErrorCode::invalid_argument,
                fmt::format("greedy: {}; expected all_gather, broadcast, gather or scatter", name_of(collective)));
  }();
  if (!transfers) return tl::unexpected(transfers.error());
  return Schedule{"greedy", shape, *transfers};
}

}  // namespace tutti
