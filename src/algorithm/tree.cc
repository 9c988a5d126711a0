// Trees: the binomial tree over consecutive ranks, and the pair of binary trees of Sanders, Speck and Träff in which
// every rank is inner in at most one, so that both halves of the vector load each rank's links alike.
#include <algorithm>
#include <bit>
#include <memory>

#include "algorithm/families.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::generate {
namespace {

/// A rank's place in a binomial tree in which every subtree is a range of consecutive ranks, whatever the root.
struct BinomialPlace {
  struct Child {
    int rank;
    int first;  // of the ranks below it, itself among them
    int count;
  };
  int parent = kNobody;
  int first = 0;  // of the ranks below, this one among them
  int count = 0;
  std::vector<Child> children;  // the largest subtree first

  TreePlace links() const {
    TreePlace place{parent, {}};
    for (const Child& child : children) place.children.push_back(child.rank);
    return place;
  }
};

/// Halves the range of all ranks towards `rank`; the top of the half without the current top becomes its child.
BinomialPlace binomial_place(int ranks, int root, int rank) {
  BinomialPlace place{kNobody, 0, ranks, {}};
  int first = 0;
  int count = ranks;
  int top = root;
  while (count > 1) {
    const int lower = static_cast<int>(std::bit_floor(static_cast<unsigned>(count - 1)));
    const bool top_is_lower = top < first + lower;
    const BinomialPlace::Child branch = top_is_lower ? BinomialPlace::Child{first + lower, first + lower, count - lower}
                                                     : BinomialPlace::Child{first, first, lower};
    if (rank >= branch.first && rank < branch.first + branch.count) {
      if (rank == branch.rank) place = {top, branch.first, branch.count, {}};
      top = branch.rank;
      first = branch.first;
      count = branch.count;
    } else {
      if (rank == top) place.children.push_back(branch);
      if (!top_is_lower) first += lower;
      count = top_is_lower ? lower : count - lower;
    }
  }
  return place;
}

void binomial_gather(PartBuilder& part, const BinomialPlace& place) {
  const bool is_root = place.parent == kNobody;
  if (place.children.empty() && !is_root) return part.worker(place.parent, kNobody).send(input(0));
  const Cells held = is_root ? output(0, place.count) : part.scratch(place.count);
  part.local().copy(input(0), part_of(held, part.rank() - place.first));
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child)
    part.worker(kNobody, child->rank).recv(part_of(held, child->first - place.first, child->count));
  if (!is_root) part.worker(place.parent, kNobody).send(held);
}

void binomial_scatter(PartBuilder& part, const BinomialPlace& place) {
  const bool is_root = place.parent == kNobody;
  if (place.children.empty() && !is_root) return part.worker(kNobody, place.parent).recv(output(0));
  const Cells held = is_root ? input(0, place.count) : part.scratch(place.count);
  if (!is_root) part.worker(kNobody, place.parent).recv(held);
  for (const auto& child : place.children)
    part.worker(child.rank, kNobody).send(part_of(held, child.first - place.first, child.count));
  part.local().copy(part_of(held, part.rank() - place.first), output(0));
}

void emit_binomial(PartBuilder& part) {
  const BinomialPlace place = binomial_place(part.ranks(), part.shape().root, part.rank());
  switch (part.shape().collective) {
    case Collective::broadcast:
      tree_broadcast(part, place.links(), input(0), output(0));
      if (place.parent == kNobody) part.local().copy(input(0), output(0));
      return;
    case Collective::gather:
      return binomial_gather(part, place);
    case Collective::scatter:
      return binomial_scatter(part, place);
    case Collective::all_reduce:
    case Collective::barrier:
      tree_reduce(part, place.links(), input(0), output(0));
      return tree_broadcast(part, place.links(), output(0), output(0));
    default:
      return tree_reduce(part, place.links(), input(0), output(0));
  }
}

/// A binary tree over positions 0 to size - 1 whose leaves are the odd ones. Its root is 0, with one child.
TreePlace binary_place(int size, int position) {
  const int top = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size)));
  TreePlace place;
  if (position == 0) {
    if (size > 1) place.children.push_back(top / 2);
    return place;
  }
  const int bit = position & -position;  // the subtree spans this far to both sides
  const int upper = (position ^ bit) | (bit << 1);
  place.parent = upper < size ? upper : position ^ bit;
  if (bit == 1) return place;
  place.children.push_back(position - bit / 2);
  for (int reach = bit / 2; reach > 0; reach /= 2) {
    if (position + reach >= size) continue;
    place.children.push_back(position + reach);
    break;
  }
  return place;
}

/// The same tree turned over, or around by one where the size is odd, so that its leaves are the other's inner ranks.
int twin_position(int size, int position) { return size % 2 == 0 ? size - 1 - position : (position + size - 1) % size; }
int position_of_twin(int size, int twin) { return size % 2 == 0 ? size - 1 - twin : (twin + 1) % size; }

}  // namespace

TreePlace double_tree_place(const Group& group, int tree) {
  const int size = group.size();
  const auto rank_at = [&](int position) {
    return group.rank_at(tree == 0 ? position : position_of_twin(size, position));
  };
  TreePlace place = binary_place(size, tree == 0 ? group.position : twin_position(size, group.position));
  if (place.parent != kNobody) place.parent = rank_at(place.parent);
  for (int& child : place.children) child = rank_at(child);
  return place;
}

namespace {

/// With a root of its own, the trees span the others, and the root stands above both.
TreePlace rooted_place(const std::vector<int>& order, int root, int rank, int tree) {
  Group others{order, 0};
  others.members.erase(std::find(others.members.begin(), others.members.end(), root));
  const int top = others.rank_at(tree == 0 ? 0 : position_of_twin(others.size(), 0));
  if (rank == root) return {kNobody, {top}};
  TreePlace place = double_tree_place(Group::of(std::move(others.members), rank), tree);
  if (rank == top) place.parent = root;
  return place;
}

void emit_double_tree(PartBuilder& part, const std::vector<int>& order) {
  const Collective collective = part.shape().collective;
  for (int tree = 0; tree < 2; ++tree) {
    const TreePlace place = collective == Collective::all_reduce
                                ? double_tree_place(Group::of(order, part.rank()), tree)
                                : rooted_place(order, part.shape().root, part.rank(), tree);
    if (collective != Collective::broadcast) tree_reduce(part, place, input(tree), output(tree), tree);
    if (collective == Collective::all_reduce) tree_broadcast(part, place, output(tree), output(tree), tree);
    if (collective == Collective::broadcast) tree_broadcast(part, place, input(tree), output(tree), tree);
  }
  if (collective == Collective::broadcast && part.rank() == part.shape().root)
    part.local().copy(input(0, 2), output(0, 2));
}

}  // namespace

bool binomial_supports(Collective collective, const Layout&) {
  return has_root(collective) || collective == Collective::all_reduce || collective == Collective::barrier;
}

Result<Program> make_binomial(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  return assemble({.name = "binomial", .shape = shape_of(collective, layout, options), .emit = emit_binomial},
                  options.instances);
}

bool double_tree_supports(Collective collective, const Layout&) {
  return collective == Collective::all_reduce || collective == Collective::broadcast ||
         collective == Collective::reduce;
}

Result<Program> make_double_tree(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  const auto order = std::make_shared<const std::vector<int>>(ring_order(layout));
  return assemble({.name = "double_tree",
                   .shape = shape_of(collective, layout, options, 2),
                   .channels = 2,
                   .emit = [order](PartBuilder& part) { emit_double_tree(part, *order); }},
                  options.instances);
}

}  // namespace tutti::generate
