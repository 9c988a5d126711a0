// A collective as a program: what each rank does, step by step, on chunks that have no bytes yet.
//
// For each rank a few *workers*; each worker a list of *steps*, run in order; `after` orders steps of
// different workers of one rank. A step names cells as (rank, buffer, chunk).
//   two-sided steps   a worker has at most one rank to send to and one to receive from; the i-th send on
//                     (source, target, channel) meets the i-th receive.
//   one-sided steps   copy and reduce may name cells of other ranks; signal and wait order them: the i-th
//                     wait for (source, target, channel) returns after the i-th signal.
// An operation begins on a rank with its entry: its input and, for peers that write there, its output may be
// touched by peers from then on, without a step saying so. It ends when all its steps are done; no access by
// another rank may come later, which programs ensure by signal and wait.
// A Program holds parts of ranks on demand (`part`), so that 1,024 ranks cost nothing until asked for.
// All types are plain values, immutable once built; safe to read from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "program/translations.hpp"

namespace tutti {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  barrier,         // an all_reduce of nothing: its chunks have no bytes, its order holds
  point_to_point,  // two ranks: 0 sends its input, 1 receives into its output
};
inline constexpr int kCollectives = 10;

std::string_view name_of(Collective collective);

/// True for reduce, broadcast, gather, scatter.
bool has_root(Collective collective);
/// True for all_reduce, reduce, reduce_scatter.
bool reduces(Collective collective);
/// True where no rank is done before all have come: all_reduce, all_gather, reduce_scatter, all_to_all, barrier.
bool leaves_together(Collective collective);

enum class Buffer : std::uint8_t { input, output, scratch };

inline constexpr int kSelf = -1;    // as a cell's rank: the rank that runs the step
inline constexpr int kNobody = -1;  // as a worker's peer

/// `count` consecutive chunks of a buffer of a rank.
struct Cells {
  int rank = kSelf;
  Buffer buffer = Buffer::input;
  int first = 0;
  int count = 1;

  bool operator==(const Cells&) const = default;
};

enum class StepKind : std::uint8_t {
  nop,                    // carries dependencies only
  send,                   // sources[0] -> worker's send peer
  recv,                   // worker's receive peer -> targets[0]
  recv_reduce,            // targets[0] = received op sources[0]
  recv_copy_send,         // targets[0] = received; forward it
  recv_reduce_send,       // forward (received op sources[0]); nothing is stored
  recv_reduce_copy_send,  // targets[0] = received op sources[0]; forward it
  copy,                   // targets[0] = sources[0]; either may lie on another rank
  reduce,                 // every target = sources[0] op sources[1] op ...; any may lie on another rank
  signal,                 // tell `peer`
  wait,                   // wait for `peer`'s signal
};

std::string_view name_of(StepKind kind);
constexpr bool receives(StepKind kind) { return kind >= StepKind::recv && kind <= StepKind::recv_reduce_copy_send; }
constexpr bool sends(StepKind kind) {
  return kind == StepKind::send || (kind >= StepKind::recv_copy_send && kind <= StepKind::recv_reduce_copy_send);
}
constexpr bool reduces(StepKind kind) {
  return kind == StepKind::recv_reduce || kind == StepKind::recv_reduce_send ||
         kind == StepKind::recv_reduce_copy_send || kind == StepKind::reduce;
}

/// A step waits until `step` of `worker`, both of the same rank, is done.
struct Dependency {
  int worker = 0;
  int step = 0;

  bool operator==(const Dependency&) const = default;
};

struct Step {
  StepKind kind = StepKind::nop;
  std::vector<Cells> sources;
  std::vector<Cells> targets;
  int peer = kNobody;        // signal, wait
  bool local_first = false;  // receiving reductions: sources[0] op received, instead of received op sources[0]
  bool completes = false;    // a reduction whose result holds every rank's contribution: here average is scaled
  std::vector<Dependency> after;

  bool operator==(const Step&) const = default;
};

struct Worker {
  int send_peer = kNobody;
  int recv_peer = kNobody;
  int channel = 0;
  std::vector<Step> steps;

  bool operator==(const Worker&) const = default;
};

/// What one rank does.
struct RankProgram {
  int scratch_chunks = 0;  // each as large as the largest input or output chunk
  std::vector<Worker> workers;

  bool operator==(const RankProgram&) const = default;
};

/// Whether the rank waits for a signal of every other rank, so that when it is done it knows all to have begun.
bool hears_all(const RankProgram& part, int rank, int ranks);

/// What a program is for. Chunks: all_reduce, reduce, broadcast, barrier and point_to_point split the whole vector
/// into `chunks`; the others split each rank's block into `chunks`, and chunk j of rank b's block has index
/// b * chunks + j where a buffer holds the blocks of all ranks.
struct Shape {
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  int root = 0;  // where has_root(collective)
  int chunks = 1;

  bool operator==(const Shape&) const = default;
};

/// Chunks in `rank`'s input and output; 0 where the rank has none (broadcast's input away from the root, ...).
int input_chunks(const Shape& shape, int rank);
int output_chunks(const Shape& shape, int rank);

/// Chunks of equal size that the whole vector has: those of all blocks, where each rank's block is split.
int chunks_of_vector(const Shape& shape);

/// Which ranks do the same but for the numbers of ranks and blocks, and for the order in which reductions take their
/// operands. Ranks are numbered by positions here: `translations` move positions. A claim, which a proof compares
/// (proof.hpp).
struct Likeness {
  Translations translations{};
  std::vector<int> position_of{};  // by rank; empty: a rank's position is its number
  bool chunk_by_chunk = false;     // once copies between scratch and a buffer are taken for one copy of each chunk
};

struct Program {
  std::string name;
  Shape shape;
  bool in_place = true;  // may run with input and output aliased as the collective defines it
  bool out_of_place = true;
  bool one_sided = false;       // has steps that touch other ranks' memory: needs all of them on one host
  std::uint64_t min_bytes = 0;  // size range it is meant for, of the whole vector; max 0: no limit
  std::uint64_t max_bytes = 0;
  std::uint64_t tile = 0;  // bytes of a chunk that are best run through it at a time; 0: for who runs it to say
  std::function<RankProgram(int rank)> part;
  Translations symmetry{};  // ranks that these move to one another do the same, translated (translated_parts.hpp)
  Likeness likeness{};      // the same of programs whose parts are not made by moving
};

/// A program whose parts are all held, e.g. read from a file.
Program make_flat(std::string name, Shape shape, std::vector<RankProgram> parts);

}  // namespace tutti
