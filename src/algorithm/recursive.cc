// Recursive doubling and halving: in round k a rank talks to the partner whose number differs in one bit.
// Where the ranks are no power of two, the first ones pair up, and the odd one of each pair leaves its part to the even
// one: "members" are those that stay, numbered through, so that consecutive members stand for consecutive ranks.
#include <algorithm>
#include <bit>

#include "algorithm/families.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::generate {
namespace {

int power_of_two_below(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); }

class Members {
 public:
  Members(int ranks, int rank)
      : count_(power_of_two_below(ranks)), pairs_(ranks - count_), paired_(rank < 2 * pairs_), rank_(rank) {}

  int count() const { return count_; }
  /// This rank's number among the members; for one that left, its partner's.
  int self() const { return paired_ ? rank_ / 2 : rank_ - pairs_; }
  bool is_out() const { return paired_ && rank_ % 2 == 1; }
  bool stands_for_two() const { return paired_ && rank_ % 2 == 0; }
  /// The other rank of the pair.
  int partner() const { return rank_ ^ 1; }
  /// The first rank a member stands for; of `count()`, the number of ranks.
  int first_rank(int member) const { return member < pairs_ ? 2 * member : member + pairs_; }
  /// The rank that is this member.
  int rank_of(int member) const { return first_rank(member); }
  /// The blocks of `members` members from `first` on, in a buffer that holds those of all ranks.
  Cells blocks(Cells all, int first, int members) const {
    return part_of(all, first_rank(first), first_rank(first + members) - first_rank(first));
  }

 private:
  int count_;
  int pairs_;
  bool paired_;
  int rank_;
};

/// The first of the `size` aligned members that `member` belongs to.
int aligned(int member, int size) { return member & ~(size - 1); }

ExchangeWorkers exchange_with_member(PartBuilder& part, const Members& members, int member, int chunks) {
  const int peer = members.rank_of(member);
  return exchange_with(part, peer, peer, chunks == 1);
}

/// The worker between the two ranks of a pair: what goes one way is over before anything goes the other.
WorkerRef between_pair(PartBuilder& part, const Members& members) {
  return part.worker(members.partner(), members.partner());
}

/// One that left hands over `whole`, and gets the result back.
void sit_out(PartBuilder& part, const Members& members, Cells whole, Cells result) {
  between_pair(part, members).send(whole);
  between_pair(part, members).recv(result);
}

void all_reduce_by_doubling(PartBuilder& part) {
  const Members members(part.ranks(), part.rank());
  if (members.is_out()) return sit_out(part, members, input(0), output(0));
  Cells sum = input(0);
  if (members.stands_for_two()) {
    between_pair(part, members).recv_reduce(sum, output(0), {.local_first = true});
    sum = output(0);
  }
  for (int distance = 1; distance < members.count(); distance *= 2) {
    const int other = members.self() ^ distance;
    const ExchangeWorkers partner = exchange_with_member(part, members, other, 1);
    partner.sender.send(sum);
    partner.receiver.recv_reduce(sum, output(0),
                                 {.local_first = members.self() < other, .completes = distance * 2 == members.count()});
    sum = output(0);
  }
  if (members.stands_for_two()) between_pair(part, members).send(sum);
}

/// Round by round, half of what a rank still cares for goes to its partner, until one chunk is left; then back.
/// Partners are near first, so that sums are of consecutive ranks.
void all_reduce_by_halving(PartBuilder& part) {
  const Members members(part.ranks(), part.rank());
  const int chunks = members.count();
  if (members.is_out()) return sit_out(part, members, input(0, chunks), output(0, chunks));
  Cells sum = input(0, chunks);
  if (members.stands_for_two()) {
    between_pair(part, members).recv_reduce(sum, output(0, chunks), {.local_first = true});
    sum = output(0, chunks);
  }
  for (int distance = 1; distance < chunks; distance *= 2) {
    const int other = members.self() ^ distance;
    const int half = sum.count / 2;
    const bool keep_lower = members.self() < other;
    const Cells kept = part_of(sum, keep_lower ? 0 : half, half);
    const ExchangeWorkers partner = exchange_with_member(part, members, other, half);
    partner.sender.send(part_of(sum, keep_lower ? half : 0, half));
    partner.receiver.recv_reduce(kept, output(kept.first, half),
                                 {.local_first = members.self() < other, .completes = half == 1});
    sum = output(kept.first, half);
  }
  for (int distance = chunks / 2; distance > 0; distance /= 2) {
    const int other = members.self() ^ distance;
    const bool is_lower = members.self() < other;
    const ExchangeWorkers partner = exchange_with_member(part, members, other, sum.count);
    partner.sender.send(sum);
    partner.receiver.recv(output(sum.first + (is_lower ? sum.count : -sum.count), sum.count));
    sum = output(is_lower ? sum.first : sum.first - sum.count, 2 * sum.count);
  }
  if (members.stands_for_two()) between_pair(part, members).send(sum);
}

/// What comes back to a rank that left: everything but its own block.
template <typename Move>
void all_but_block(int ranks, int block, Move move) {
  if (block > 0) move(output(0, block));
  if (block + 1 < ranks) move(output(block + 1, ranks - block - 1));
}

void all_gather_by_doubling(PartBuilder& part) {
  const Members members(part.ranks(), part.rank());
  const Cells all = output(0, part.ranks());
  const WorkerRef local = part.local();
  if (members.is_out()) {
    const WorkerRef pair = between_pair(part, members);
    pair.send(input(0));
    all_but_block(part.ranks(), part.rank(), [&](Cells cells) { pair.recv(cells); });
    return local.copy(input(0), output(part.rank()));
  }
  local.copy(input(0), output(part.rank()));
  if (members.stands_for_two()) between_pair(part, members).recv(output(members.partner()));
  for (int distance = 1; distance < members.count(); distance *= 2) {
    const int other = members.self() ^ distance;
    const Cells held = members.blocks(all, aligned(members.self(), distance), distance);
    const Cells wanted = members.blocks(all, aligned(other, distance), distance);
    const ExchangeWorkers partner = exchange_with_member(part, members, other, std::max(held.count, wanted.count));
    partner.sender.send(held);
    partner.receiver.recv(wanted);
  }
  if (members.stands_for_two())
    all_but_block(part.ranks(), members.partner(), [&](Cells cells) { between_pair(part, members).send(cells); });
}

/// Partners are far first, so that what a rank still cares for is always consecutive blocks.
void reduce_scatter_by_halving(PartBuilder& part) {
  const Members members(part.ranks(), part.rank());
  if (members.is_out()) return sit_out(part, members, input(0, part.ranks()), output(0));
  const Cells sums = part.scratch(part.ranks());
  Cells all = input(0, part.ranks());
  if (members.stands_for_two()) {
    between_pair(part, members).recv_reduce(all, sums, {.local_first = true});
    all = sums;
  }
  for (int distance = members.count() / 2; distance > 0; distance /= 2) {
    const int other = members.self() ^ distance;
    const Cells given = members.blocks(all, aligned(other, distance), distance);
    const Cells kept = members.blocks(all, aligned(members.self(), distance), distance);
    const bool last = distance == 1;
    const Cells result = last && kept.count == 1 ? output(0) : part_of(sums, kept.first - all.first, kept.count);
    const ExchangeWorkers partner = exchange_with_member(part, members, other, std::max(given.count, kept.count));
    partner.sender.send(given);
    partner.receiver.recv_reduce(kept, result, {.local_first = members.self() < other, .completes = last});
    all = sums;
  }
  if (members.stands_for_two()) {
    between_pair(part, members).send(part_of(sums, members.partner()));
    part.local().copy(part_of(sums, part.rank()), output(0));
  }
}

}  // namespace

bool recursive_doubling_supports(Collective collective, const Layout&) {
  return collective == Collective::all_reduce || collective == Collective::barrier ||
         collective == Collective::all_gather;
}

Result<Program> make_recursive_doubling(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  const bool gathers = collective == Collective::all_gather;
  return assemble({.name = "recursive_doubling",
                   .shape = shape_of(collective, layout, options),
                   .emit = gathers ? all_gather_by_doubling : all_reduce_by_doubling},
                  options.instances);
}

bool halving_doubling_supports(Collective collective, const Layout&) { return collective == Collective::all_reduce; }

Result<Program> make_halving_doubling(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  return assemble({.name = "halving_doubling",
                   .shape = shape_of(collective, layout, options, power_of_two_below(layout.ranks())),
                   .emit = all_reduce_by_halving},
                  options.instances);
}

bool recursive_halving_supports(Collective collective, const Layout&) {
  return collective == Collective::reduce_scatter;
}

Result<Program> make_recursive_halving(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  return assemble(
      {.name = "recursive_halving", .shape = shape_of(collective, layout, options), .emit = reduce_scatter_by_halving},
      options.instances);
}

}  // namespace tutti::generate
