// Chunks travel around a ring (all_reduce, all_gather, reduce_scatter) or along it from end to end (broadcast, reduce).
#include <memory>
#include <utility>
#include <vector>

#include "algorithm/families.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::generate {
namespace {

using Order = std::shared_ptr<const std::vector<int>>;

void emit(PartBuilder& part, const Order& order) {
  const Group ring = Group::of(*order, part.rank());
  const auto position_of_root = [&] { return Group::of(*order, part.shape().root).position; };
  switch (part.shape().collective) {
    case Collective::all_reduce:
      return ring_all_reduce(
          part, ring, [](int shard) { return input(shard); }, [](int shard) { return output(shard); });
    case Collective::reduce_scatter:
      return ring_reduce_scatter(
          part, ring, [&](int position) { return input(ring.rank_at(position)); }, output(0));
    case Collective::all_gather:
      ring_all_gather(part, ring, input(0), [&](int position) { return output(ring.rank_at(position)); });
      return part.local().copy(input(0), output(part.rank()));
    case Collective::broadcast:
      chain_broadcast(part, ring, position_of_root(), input(0), output(0));
      if (part.rank() == part.shape().root) part.local().copy(input(0), output(0));
      return;
    default:
      return chain_reduce(part, ring, position_of_root(), input(0), output(0));
  }
}

}  // namespace

bool ring_supports(Collective collective, const Layout&) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::all_gather || collective == Collective::broadcast ||
         collective == Collective::reduce;
}

Result<Program> make_ring(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  const int chunks = collective == Collective::all_reduce ? layout.ranks() : 1;
  const auto order = std::make_shared<const std::vector<int>>(ring_order(layout));
  std::vector<int> position_of(order->size());
  for (std::size_t position = 0; position < order->size(); ++position)
    position_of[static_cast<std::size_t>((*order)[position])] = static_cast<int>(position);
  const Shape shape = shape_of(collective, layout, options, chunks);
  return assemble({.name = "ring",
                   .shape = shape,
                   .likeness = all_alike(shape, std::move(position_of)),
                   .emit = [order](PartBuilder& part) { emit(part, order); }},
                  options.instances);
}

}  // namespace tutti::generate
