// One-sided algorithms for ranks of one host. One worker per rank tells everything, so that signals and waits stand
// between the accesses they order. A signal says "I am done with your memory, and mine is ready for you" as far as the
// phase goes; every program ends with the signals without which a peer might still touch a rank that has returned.
#include <algorithm>

#include "algorithm/families.hpp"
#include "algorithm/one_sided.hpp"

namespace tutti::generate {
namespace {

/// The same cells of every rank, in rank order.
std::vector<Cells> of_everybody(const PartBuilder& part, Cells cells) {
  std::vector<Cells> all;
  for (int rank = 0; rank < part.ranks(); ++rank) all.push_back(rank == part.rank() ? cells : of_rank(rank, cells));
  return all;
}

namespace pull {

/// Rank r reduces chunk r, then everybody reads it there. In place, chunk r of any rank is read by rank r alone until
/// its signal.
void all_reduce(PartBuilder& part) {
  const WorkerRef me = part.local();
  const int own = part.rank();
  me.reduce(of_everybody(part, input(own)), {output(own)}, true);
  signal_others(part);
  for (int peer : others(part)) {
    me.wait(peer);
    me.copy(of_rank(peer, output(peer)), output(peer));
  }
  meet(part);
}

/// Rank r reduces chunk r, the root fetches the results.
void reduce(PartBuilder& part) {
  const WorkerRef me = part.local();
  const int own = part.rank();
  const int root = part.shape().root;
  const Cells result = own == root ? output(own) : part.scratch(1);
  me.reduce(of_everybody(part, input(own)), {result}, true);
  signal_others(part);
  if (own != root) {
    wait_for_others(part);
    return me.wait(root);
  }
  for (int peer : others(part)) {
    me.wait(peer);
    me.copy({peer, Buffer::scratch, 0, 1}, output(peer));
  }
  signal_others(part);
}

void reduce_scatter(PartBuilder& part) {
  part.local().reduce(of_everybody(part, input(part.rank())), {output(0)}, true);
  meet(part);
}

void all_gather(PartBuilder& part) {
  part.local().copy(input(0), output(part.rank()));
  for (int peer : others(part)) part.local().copy(of_rank(peer, input(0)), output(peer));
  meet(part);
}

void all_to_all(PartBuilder& part) {
  part.local().copy(input(part.rank()), output(part.rank()));
  for (int peer : others(part)) part.local().copy(of_rank(peer, input(part.rank())), output(peer));
  meet(part);
}

/// broadcast and scatter: everybody reads `block` of the root.
void from_root(PartBuilder& part, Cells block) {
  const int root = part.shape().root;
  if (part.rank() == root) {
    part.local().copy(block, output(0));
    return wait_for_others(part);
  }
  part.local().copy(of_rank(root, block), output(0));
  part.local().signal(root);
}

void gather(PartBuilder& part) {
  const int root = part.shape().root;
  if (part.rank() != root) return part.local().wait(root);
  part.local().copy(input(0), output(root));
  for (int peer : others(part)) {
    part.local().copy(of_rank(peer, input(0)), output(peer));
    part.local().signal(peer);
  }
}

void point_to_point(PartBuilder& part) {
  if (part.rank() == 0) return part.local().wait(1);
  part.local().copy(of_rank(0, input(0)), output(0));
  part.local().signal(0);
}

constexpr Emitter kEmitters[] = {
    {Collective::all_reduce, all_reduce},
    {Collective::reduce, reduce},
    {Collective::reduce_scatter, reduce_scatter},
    {Collective::all_gather, all_gather},
    {Collective::all_to_all, all_to_all},
    {Collective::broadcast, [](PartBuilder& part) { from_root(part, input(0)); }},
    {Collective::scatter, [](PartBuilder& part) { from_root(part, input(part.rank())); }},
    {Collective::gather, gather},
    {Collective::point_to_point, point_to_point},
};

}  // namespace pull

namespace push {

/// Rank r reduces chunk r straight into everybody's output; in place it alone touches chunk r of any rank.
void all_reduce(PartBuilder& part) {
  const int own = part.rank();
  part.local().reduce(of_everybody(part, input(own)), of_everybody(part, output(own)), true);
  meet(part);
}

void reduce(PartBuilder& part) {
  const int own = part.rank();
  const int root = part.shape().root;
  const Cells target = own == root ? output(own) : of_rank(root, output(own));
  part.local().reduce(of_everybody(part, input(own)), {target}, true);
  meet(part);
}

void all_gather(PartBuilder& part) {
  part.local().copy(input(0), output(part.rank()));
  for (int peer : others(part)) {
    part.local().copy(input(0), of_rank(peer, output(part.rank())));
    part.local().signal(peer);
  }
  wait_for_others(part);
}

void all_to_all(PartBuilder& part) {
  part.local().copy(input(part.rank()), output(part.rank()));
  for (int peer : others(part)) {
    part.local().copy(input(peer), of_rank(peer, output(part.rank())));
    part.local().signal(peer);
  }
  wait_for_others(part);
}

/// broadcast and scatter: the root writes `block_for(peer)` into each peer's output.
template <typename BlockFor>
void from_root(PartBuilder& part, BlockFor block_for) {
  const int root = part.shape().root;
  if (part.rank() != root) return part.local().wait(root);
  for (int peer : others(part)) {
    part.local().copy(block_for(peer), of_rank(peer, output(0)));
    part.local().signal(peer);
  }
  part.local().copy(block_for(root), output(0));
}

void gather(PartBuilder& part) {
  const int root = part.shape().root;
  if (part.rank() == root) {
    part.local().copy(input(0), output(root));
    return wait_for_others(part);
  }
  part.local().copy(input(0), of_rank(root, output(part.rank())));
  part.local().signal(root);
}

void point_to_point(PartBuilder& part) {
  if (part.rank() == 1) return part.local().wait(0);
  part.local().copy(input(0), of_rank(1, output(0)));
  part.local().signal(1);
}

constexpr Emitter kEmitters[] = {
    {Collective::all_reduce, all_reduce},
    {Collective::reduce, reduce},
    {Collective::all_gather, all_gather},
    {Collective::all_to_all, all_to_all},
    {Collective::broadcast, [](PartBuilder& part) { from_root(part, [](int) { return input(0); }); }},
    {Collective::scatter, [](PartBuilder& part) { from_root(part, [](int peer) { return input(peer); }); }},
    {Collective::gather, gather},
    {Collective::point_to_point, point_to_point},
};

}  // namespace push

/// Broadcast in two phases: rank r reads chunk r from the root, then the other chunks from those who read them, so
/// that the root's memory is read twice over instead of once per rank.
void split_broadcast(PartBuilder& part) {
  const WorkerRef me = part.local();
  const int own = part.rank();
  const int root = part.shape().root;
  if (own == root) {
    me.copy(input(0, part.ranks()), output(0, part.ranks()));
    return wait_for_others(part);
  }
  me.reserve(5 * part.ranks());
  std::vector<int> readers = others(part);
  readers.erase(std::find(readers.begin(), readers.end(), root));
  me.copy(of_rank(root, input(own)), output(own));
  for (int peer : readers) me.signal(peer);
  me.copy(of_rank(root, input(root)), output(root));
  me.signal(root);
  for (int peer : readers) {
    me.wait(peer);
    me.copy(of_rank(peer, output(peer)), output(peer));
    me.signal(peer);
  }
  for (int peer : readers) me.wait(peer);
}

/// Everybody reduces everything for itself, by way of scratch: in place, its output is what others still read.
void oneshot_all_reduce(PartBuilder& part) {
  const Cells result = part.scratch(1);
  part.local().reduce(of_everybody(part, input(0)), {result}, true);
  meet(part);
  part.local().copy(result, output(0));
}

bool on_one_host(Collective collective, const Layout& layout) {
  if (collective == Collective::point_to_point && layout.ranks() != 2) return false;
  return layout.hosts() == 1;
}

/// all_reduce and reduce give each rank a chunk to reduce.
int chunks_for(Collective collective, const Layout& layout) {
  return collective == Collective::all_reduce || collective == Collective::reduce ? layout.ranks() : 1;
}

}  // namespace

bool direct_pull_supports(Collective collective, const Layout& layout) {
  return find_emitter(pull::kEmitters, collective) != nullptr && on_one_host(collective, layout);
}

Result<Program> make_direct_pull(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  const Shape shape = shape_of(collective, layout, options, chunks_for(collective, layout));
  // In place, a block of all_to_all would be overwritten before its reader came.
  return assemble({.name = "direct_pull",
                   .shape = shape,
                   .in_place = collective != Collective::all_to_all,
                   .one_sided = true,
                   .likeness = all_alike(shape),
                   .emit = find_emitter(pull::kEmitters, collective)},
                  options.instances);
}

bool direct_push_supports(Collective collective, const Layout& layout) {
  return find_emitter(push::kEmitters, collective) != nullptr && on_one_host(collective, layout);
}

Result<Program> make_direct_push(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  const Shape shape = shape_of(collective, layout, options, chunks_for(collective, layout));
  return assemble({.name = "direct_push",
                   .shape = shape,
                   .in_place = collective != Collective::all_to_all,
                   .one_sided = true,
                   .likeness = all_alike(shape),
                   .emit = find_emitter(push::kEmitters, collective)},
                  options.instances);
}

bool direct_split_supports(Collective collective, const Layout& layout) {
  return collective == Collective::broadcast && on_one_host(collective, layout);
}

Result<Program> make_direct_split(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  return assemble({.name = "direct_split",
                   .shape = shape_of(collective, layout, options, layout.ranks()),
                   .one_sided = true,
                   .emit = split_broadcast},
                  options.instances);
}

bool direct_oneshot_supports(Collective collective, const Layout& layout) {
  return (collective == Collective::all_reduce || collective == Collective::barrier) && on_one_host(collective, layout);
}

Result<Program> make_direct_oneshot(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  const Shape shape = shape_of(collective, layout, options);
  return assemble({.name = "direct_oneshot",
                   .shape = shape,
                   .one_sided = true,
                   .likeness = all_alike(shape),
                   .emit = oneshot_all_reduce},
                  options.instances);
}

}  // namespace tutti::generate
