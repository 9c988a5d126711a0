// What moves where, and in which order: a collective before it is a program.
//
// A schedule copies: it is an all_gather, a broadcast, a scatter, a gather or an all_to_all. Reductions are schedules
// turned round: a reduce_scatter is the all_gather of the reversed topology, backwards; a reduce the broadcast; an
// all_reduce the one after the other (lower.hpp). Chunks are pieces of equal size, numbered so:
//   broadcast             chunk of the vector: 0 .. chunks - 1
//   all_gather            block * chunks + piece; the block of rank b starts there
//   gather, scatter       block * chunks + piece; of rank b, on its way to the root or from it
//   all_to_all            (source * ranks + target) * chunks + piece
// The order of the transfers is a promise: when they are done one after the other, whoever sends a chunk has it by
// then, and nobody gets one twice. Generators put them in the order of the times they reckon with, which is the order
// in which each link carries them. Plain values.
#pragma once

#include <string>
#include <vector>

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct Transfer {
  int chunk = 0;
  int from = 0;  // ranks, with a route between them (topology/routes.hpp)
  int to = 0;
  int channel = 0;  // modulo Routes::period(): the route it takes. What is sent on one channel is sent in this order

  bool operator==(const Transfer&) const = default;
};

struct Schedule {
  std::string generator;  // who made it, for people: "packed trees"
  Shape shape;
  std::vector<Transfer> transfers;
  /// Where it moves ranks: the transfers are those of chunks that start at a representative
  /// (Translations::representative_of); whatever translations make of one happens beside it. For all_gather and
  /// all_to_all.
  Translations symmetry{};
};

/// Number of chunks on their way, as numbered above.
int chunks_of(const Shape& shape);
/// The rank a chunk starts at.
int home_of(const Shape& shape, int chunk);
/// Whether a rank is to have the chunk in the end; where it starts, it counts as wanted.
bool wants(const Shape& shape, int chunk, int rank);

/// Above, what some ranks do and others do moved is told once; below, with all transfers, of which some can be merged.
inline constexpr int kMostRanksWrittenOut = 256;
/// What a translation makes of a chunk: that of the ranks moved.
int translated_chunk(const Shape& shape, int chunk, const Translations& translations, int by);
/// The same schedule with all transfers, and no symmetry.
Schedule written_out(const Schedule& schedule);

/// Whether the schedule keeps its promises, and brings every chunk to all that want it. Linear in the transfers; the
/// error names the first transfer that is wrong, or the chunk and the rank that lacks it.
Status check_schedule(const Schedule& schedule);

/// Without the transfers that bring a chunk to where nobody wants it, nor takes it from.
Schedule without_dead_ends(Schedule schedule);

}  // namespace tutti
