// One hop: whoever has something for a rank sends it straight there. Peers are taken by distance from the rank.
#include "algorithm/families.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::generate {
namespace {

Group everybody(const PartBuilder& part) {
  Group group;
  for (int rank = 0; rank < part.ranks(); ++rank) group.members.push_back(rank);
  group.position = part.rank();
  return group;
}

/// The shortest way for two ranks: one worker, no scratch.
void all_reduce_of_two(PartBuilder& part) {
  const int peer = 1 - part.rank();
  const WorkerRef both = part.worker(peer, peer);
  both.send(input(0));
  both.recv_reduce(input(0), output(0), {.local_first = part.rank() == 0, .completes = true});
}

void reduce_scatter_of_two(PartBuilder& part) {
  const int peer = 1 - part.rank();
  const WorkerRef both = part.worker(peer, peer);
  both.send(input(peer));
  both.recv_reduce(input(part.rank()), output(0), {.local_first = part.rank() == 0, .completes = true});
}

void all_reduce(PartBuilder& part) {
  if (part.ranks() == 2) return all_reduce_of_two(part);
  const Group all = everybody(part);
  const Cells received = part.scratch(part.ranks() - 1);
  pairwise(
      part, all, [](int) { return input(0); }, [&](int from) { return landing(all, received, from, 1); });
  part.local().reduce(operands_in_order(all, input(0), received, 1), {output(0)}, true);
}

void reduce_scatter(PartBuilder& part) {
  if (part.ranks() == 2) return reduce_scatter_of_two(part);
  const Group all = everybody(part);
  const Cells received = part.scratch(part.ranks() - 1);
  pairwise(
      part, all, [](int to) { return input(to); }, [&](int from) { return landing(all, received, from, 1); });
  part.local().reduce(operands_in_order(all, input(part.rank()), received, 1), {output(0)}, true);
}

void reduce(PartBuilder& part) {
  const int root = part.shape().root;
  if (part.rank() != root) return part.worker(root, kNobody).send(input(0));
  if (part.ranks() == 2) {
    const int peer = 1 - root;
    return part.worker(kNobody, peer).recv_reduce(input(0), output(0), {.local_first = root == 0, .completes = true});
  }
  const Group all = everybody(part);
  const Cells received = part.scratch(part.ranks() - 1);
  for (int distance = 1; distance < part.ranks(); ++distance) {
    const int from = all.shifted(distance);
    part.worker(kNobody, from).recv(landing(all, received, from, 1));
  }
  part.local().reduce(operands_in_order(all, input(0), received, 1), {output(0)}, true);
}

void all_gather(PartBuilder& part) {
  pairwise(
      part, everybody(part), [](int) { return input(0); }, [](int from) { return output(from); });
  part.local().copy(input(0), output(part.rank()));
}

void all_to_all(PartBuilder& part) {
  pairwise(
      part, everybody(part), [](int to) { return input(to); }, [](int from) { return output(from); });
  part.local().copy(input(part.rank()), output(part.rank()));
}

/// broadcast and scatter: `block_for(peer)` goes from the root to each peer.
template <typename BlockFor>
void from_root(PartBuilder& part, BlockFor block_for) {
  const int root = part.shape().root;
  if (part.rank() != root) return part.worker(kNobody, root).recv(output(0));
  for (int distance = 1; distance < part.ranks(); ++distance) {
    const int peer = (root + distance) % part.ranks();
    part.worker(peer, kNobody).send(block_for(peer));
  }
  part.local().copy(block_for(root), output(0));
}

void gather(PartBuilder& part) {
  const int root = part.shape().root;
  if (part.rank() != root) return part.worker(root, kNobody).send(input(0));
  for (int distance = 1; distance < part.ranks(); ++distance) {
    const int peer = (root + distance) % part.ranks();
    part.worker(kNobody, peer).recv(output(peer));
  }
  part.local().copy(input(0), output(root));
}

void point_to_point(PartBuilder& part) {
  if (part.rank() == 0)
    part.worker(1, kNobody).send(input(0));
  else
    part.worker(kNobody, 0).recv(output(0));
}

void emit(PartBuilder& part) {
  switch (part.shape().collective) {
    case Collective::all_reduce:
    case Collective::barrier:
      return all_reduce(part);
    case Collective::reduce:
      return reduce(part);
    case Collective::reduce_scatter:
      return reduce_scatter(part);
    case Collective::broadcast:
      return from_root(part, [](int) { return input(0); });
    case Collective::scatter:
      return from_root(part, [](int peer) { return input(peer); });
    case Collective::all_gather:
      return all_gather(part);
    case Collective::all_to_all:
      return all_to_all(part);
    case Collective::gather:
      return gather(part);
    case Collective::point_to_point:
      return point_to_point(part);
  }
}

}  // namespace

bool oneshot_supports(Collective collective, const Layout& layout) {
  if (collective == Collective::point_to_point) return layout.ranks() == 2;
  return layout.ranks() <= kMaxWorkers;
}

Result<Program> make_oneshot(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  const Shape shape = shape_of(collective, layout, options);
  return assemble({.name = "oneshot", .shape = shape, .likeness = all_alike(shape), .emit = emit}, options.instances);
}

}  // namespace tutti::generate
