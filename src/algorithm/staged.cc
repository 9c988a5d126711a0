// One-sided algorithms that touch no rank's buffers but through scratch: what others need is copied there once, and
// whoever needs it reads it there. For memory that peers cannot map.
//
// Where every rank waits for a signal of every other, none waits for its readers at the end: the engine gives two such
// programs in a row different scratch, and whoever ends the second knows that all have ended the first.
#include "algorithm/families.hpp"
#include "algorithm/one_sided.hpp"

namespace tutti::generate {
namespace {

/// The scratch cells of this rank or another: all ranks number them alike.
Cells scratch_of(const PartBuilder& part, int rank, int first) {
  return {rank == part.rank() ? kSelf : rank, Buffer::scratch, first, 1};
}

/// The scratch cell of `from` that holds what it has for `to`.
int cell_for(const PartBuilder& part, int from, int to) { return (to - from - 1 + part.ranks()) % part.ranks(); }

/// Copies the input block of each peer into the scratch cell for it.
void stage_blocks(PartBuilder& part) {
  const Cells staged = part.scratch(part.ranks() - 1);
  part.local().reserve(3 * part.ranks());  // with those that follow
  for (int peer : others(part)) {
    part.local().copy(input(peer), part_of(staged, cell_for(part, part.rank(), peer)));
    part.local().signal(peer);
  }
}

/// What all ranks have for `own`, in rank order: this rank's input, and what the others staged for it.
std::vector<Cells> operands(const PartBuilder& part, Cells own) {
  std::vector<Cells> all;
  for (int rank = 0; rank < part.ranks(); ++rank)
    all.push_back(rank == part.rank() ? own : scratch_of(part, rank, cell_for(part, rank, part.rank())));
  return all;
}

/// Rank r reduces chunk r, and leaves the result in scratch for everybody.
void all_reduce(PartBuilder& part) {
  const int own = part.rank();
  stage_blocks(part);
  const Cells result = part.scratch(1);
  wait_for_others(part);
  part.local().reduce(operands(part, input(own)), {output(own), result}, true);
  signal_others(part);
  for (int peer : others(part)) {
    part.local().wait(peer);
    part.local().copy(scratch_of(part, peer, result.first), output(peer));
  }
}

/// Rank r reduces chunk r, the root fetches the results.
void reduce(PartBuilder& part) {
  const int own = part.rank();
  const int root = part.shape().root;
  stage_blocks(part);
  const Cells result = own == root ? output(own) : part.scratch(1);
  wait_for_others(part);
  part.local().reduce(operands(part, input(own)), {result}, true);
  if (own != root) return part.local().signal(root);
  for (int peer : others(part)) {
    part.local().wait(peer);
    part.local().copy(scratch_of(part, peer, part.ranks() - 1), output(peer));
  }
}

void reduce_scatter(PartBuilder& part) {
  stage_blocks(part);
  wait_for_others(part);
  part.local().reduce(operands(part, input(part.rank())), {output(0)}, true);
}

void all_gather(PartBuilder& part) {
  const Cells staged = part.scratch(1);
  part.local().copy(input(0), staged);
  signal_others(part);
  part.local().copy(input(0), output(part.rank()));
  for (int peer : others(part)) {
    part.local().wait(peer);
    part.local().copy(scratch_of(part, peer, 0), output(peer));
  }
}

void all_to_all(PartBuilder& part) {
  stage_blocks(part);
  part.local().copy(input(part.rank()), output(part.rank()));
  for (int peer : others(part)) {
    part.local().wait(peer);
    part.local().copy(scratch_of(part, peer, cell_for(part, peer, part.rank())), output(peer));
  }
}

/// The others hear of nobody but the root, so it waits for them to have read.
void broadcast(PartBuilder& part) {
  const int root = part.shape().root;
  const Cells staged = part.scratch(1);
  if (part.rank() != root) {
    part.local().wait(root);
    part.local().copy(scratch_of(part, root, 0), output(0));
    return part.local().signal(root);
  }
  part.local().copy(input(0), staged);
  signal_others(part);
  part.local().copy(input(0), output(0));
  wait_for_others(part);
}

constexpr Emitter kEmitters[] = {
    {Collective::all_reduce, all_reduce},         {Collective::reduce, reduce},
    {Collective::reduce_scatter, reduce_scatter}, {Collective::all_gather, all_gather},
    {Collective::all_to_all, all_to_all},         {Collective::broadcast, broadcast},
};

}  // namespace

bool staged_supports(Collective collective, const Layout& layout) {
  return find_emitter(kEmitters, collective) != nullptr && layout.hosts() == 1;
}

Result<Program> make_staged(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  const bool shares = collective == Collective::all_reduce || collective == Collective::reduce;
  const Shape shape = shape_of(collective, layout, options, shares ? layout.ranks() : 1);
  return assemble({.name = "staged",
                   .shape = shape,
                   .in_place = collective != Collective::all_to_all,
                   .one_sided = true,
                   .likeness = all_alike(shape),
                   .emit = find_emitter(kEmitters, collective)},
                  options.instances);
}

}  // namespace tutti::generate
