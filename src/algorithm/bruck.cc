// Bruck's algorithms: ceil(log2(ranks)) rounds, in each of which a rank sends many blocks to one peer as one message.
#include <algorithm>
#include <utility>

#include "algorithm/families.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::generate {
namespace {

/// A rank gathers blocks in scratch in the order of distance from its own, then turns them into place.
void all_gather(PartBuilder& part) {
  const int ranks = part.ranks();
  const int rank = part.rank();
  const Cells held = part.scratch(ranks);
  part.local().copy(input(0), part_of(held, 0));
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int blocks = std::min(distance, ranks - distance);
    const ExchangeWorkers round =
        exchange_with(part, (rank - distance + ranks) % ranks, (rank + distance) % ranks, blocks == 1);
    round.sender.send(part_of(held, 0, blocks));
    round.receiver.recv(part_of(held, distance, blocks));
  }
  // For all rounds at once, so that ranks do not differ by the rounds that each of the two copies waits for.
  part.local().await(held);
  part.local().copy(part_of(held, 0, ranks - rank), output(rank, ranks - rank));
  if (rank > 0) part.local().copy(part_of(held, ranks - rank, rank), output(0, rank));
}

/// A block that has `distance` to go travels along the bits of that distance. In each round those whose bit is set are
/// packed side by side; where they land is remembered rather than undone, and is the same on every rank.
void all_to_all(PartBuilder& part) {
  const int ranks = part.ranks();
  const int rank = part.rank();
  std::vector<Cells> block_at;  // by distance
  for (int distance = 0; distance < ranks; ++distance) block_at.push_back(input((rank + distance) % ranks));

  const Cells packed = part.scratch(ranks / 2);
  for (int hop = 1; hop < ranks; hop *= 2) {
    std::vector<int> moving;
    for (int distance = 0; distance < ranks; ++distance)
      if (distance & hop) moving.push_back(distance);
    const int blocks = static_cast<int>(moving.size());
    const Cells landed = part.scratch(blocks);
    for (int i = 0; i < blocks; ++i) {
      Cells& block = block_at[static_cast<std::size_t>(moving[static_cast<std::size_t>(i)])];
      part.local().copy(block, part_of(packed, i));
      block = part_of(landed, i);
    }
    const ExchangeWorkers round = exchange_with(part, (rank + hop) % ranks, (rank - hop + ranks) % ranks, blocks == 1);
    round.sender.send(part_of(packed, 0, blocks));
    round.receiver.recv(landed);
  }
  for (int distance = 0; distance < ranks; ++distance)
    part.local().copy(block_at[static_cast<std::size_t>(distance)], output((rank - distance + ranks) % ranks));
}

}  // namespace

bool bruck_supports(Collective collective, const Layout&) {
  return collective == Collective::all_gather || collective == Collective::all_to_all;
}

Result<Program> make_bruck(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  const Shape shape = shape_of(collective, layout, options);
  Likeness likeness = all_alike(shape);
  // What all_gather turns into place at the end goes around the end of the buffer at another block on each rank.
  likeness.chunk_by_chunk = true;
  return assemble({.name = "bruck",
                   .shape = shape,
                   .likeness = std::move(likeness),
                   .emit = collective == Collective::all_gather ? all_gather : all_to_all},
                  options.instances);
}

}  // namespace tutti::generate
