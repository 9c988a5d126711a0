// Ways for a group of ranks to pass chunks around, from which several generators are composed. Each tells the part of
// the builder's rank, a member of the group; a group of one passes nothing. Positions run from 0 to size - 1.
#pragma once

#include <functional>
#include <vector>

#include "algorithm/builder.hpp"

namespace tutti::generate {

struct Group {
  std::vector<int> members;
  int position = 0;  // of the rank whose part is told

  /// `rank` must be among the members.
  static Group of(std::vector<int> members, int rank);

  int size() const { return static_cast<int>(members.size()); }
  /// A position counted from this one, around the end.
  int shifted(int by) const { return wrapped(position + by); }
  int wrapped(int any) const { return (any % size() + size()) % size(); }
  int rank_at(int any) const { return members[static_cast<std::size_t>(wrapped(any))]; }
  int next() const { return rank_at(position + 1); }
  int previous() const { return rank_at(position - 1); }
};

using CellsOf = std::function<Cells(int position)>;
using CellListOf = std::function<std::vector<Cells>(int position)>;

/// Sends to one rank and receives from one, both within one worker where a single chunk goes each way: two chunks
/// that wait for each other's slots would block a worker that does both.
struct ExchangeWorkers {
  WorkerRef sender;
  WorkerRef receiver;
};
ExchangeWorkers exchange_with(PartBuilder& part, int to, int from, bool single_chunk, int channel = 0);

/// Member q gets `share(q)` of every other member, which lands there in `into(sender)`. Peers are taken in the order of
/// their distance, so that no member is everybody's first target.
void pairwise(PartBuilder& part, const Group& group, const CellListOf& share, const CellListOf& into, int channel = 0);
void pairwise(PartBuilder& part, const Group& group, const CellsOf& share, const CellsOf& into, int channel = 0);

/// What all other members sent, with one's own, as operands in the group's order: `received` holds `count` cells per
/// other member, the next one first: all members number them alike.
std::vector<Cells> operands_in_order(const Group& group, Cells own, Cells received, int count);
/// Where in `received` the member at `position` lands.
Cells landing(const Group& group, Cells received, int position, int count);

/// Shard p, of each member's `source(p)`, ends reduced in everybody's `target(p)`.
void ring_all_reduce(PartBuilder& part, const Group& group, const CellsOf& source, const CellsOf& target,
                     int channel = 0);
/// Shard p ends reduced in `target` of the member at position p.
void ring_reduce_scatter(PartBuilder& part, const Group& group, const CellsOf& source, Cells target, int channel = 0);
/// `own` of the member at position p ends in every other member's `target(p)`.
void ring_all_gather(PartBuilder& part, const Group& group, Cells own, const CellsOf& target, int channel = 0);
/// `source` of the member at `first` ends in every other member's `target`.
void chain_broadcast(PartBuilder& part, const Group& group, int first, Cells source, Cells target, int channel = 0);
/// Every member's `source`, reduced, ends in `target` of the member at `last`.
void chain_reduce(PartBuilder& part, const Group& group, int last, Cells source, Cells target, int channel = 0);

/// A rank's neighbours in a tree.
struct TreePlace {
  int parent = kNobody;
  std::vector<int> children;  // in the order in which a broadcast serves them; a reduction takes them in reverse
};
/// The place of the group's member in the first or second (`tree` 0, 1) of a pair of binary trees over the group, in
/// which nobody is inner in both.
TreePlace double_tree_place(const Group& group, int tree);
/// `source` of the root ends in everybody else's `target`.
void tree_broadcast(PartBuilder& part, const TreePlace& place, Cells source, Cells target, int channel = 0);
/// Everybody's `source`, reduced, ends in the root's `target`. Where each subtree holds consecutive ranks, operands
/// keep rank order.
void tree_reduce(PartBuilder& part, const TreePlace& place, Cells source, Cells target, int channel = 0);

}  // namespace tutti::generate
