// Writes one rank's part of a program the way a person would describe it: one thing after the other.
//
// Steps go to workers by the peers they talk to. The builder remembers which step last wrote and read each of the
// rank's own cells, and adds the dependencies between workers that keep the told order where it matters; cells that
// alias in place count as one. What is told first is never made to wait for what is told later, so within a phase
// all sends are told before the receives they could collide with.
// Cells of other ranks are not tracked: one-sided steps are ordered by signal and wait, told on one worker.
// Used by one thread, while a part is made; knows nothing of particular algorithms.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "program/program.hpp"

namespace tutti::generate {

inline Cells input(int first, int count = 1) { return {kSelf, Buffer::input, first, count}; }
inline Cells output(int first, int count = 1) { return {kSelf, Buffer::output, first, count}; }
inline Cells of_rank(int rank, Cells cells) { return {rank, cells.buffer, cells.first, cells.count}; }
/// `count` cells of `cells`, from its `offset`-th on.
inline Cells part_of(Cells cells, int offset, int count = 1) {
  return {cells.rank, cells.buffer, cells.first + offset, count};
}

/// How a receiving reduction treats its operands.
struct Fold {
  bool local_first = false;
  bool completes = false;
};

class PartBuilder;

/// A worker of the part being built. A small handle, valid as long as its builder.
class WorkerRef {
 public:
  void send(Cells source) const;
  void recv(Cells target) const;
  void recv_reduce(Cells source, Cells target, Fold fold) const;
  void recv_copy_send(Cells target) const;
  void recv_reduce_send(Cells source, Fold fold) const;
  void recv_reduce_copy_send(Cells source, Cells target, Fold fold) const;
  void copy(Cells source, Cells target) const;
  void reduce(std::vector<Cells> sources, std::vector<Cells> targets, bool completes) const;
  /// A step that does nothing, after whatever was told to write `cells`.
  void await(Cells cells) const;
  void signal(int peer) const;
  void wait(int peer) const;
  /// Makes room for so many more steps.
  void reserve(int steps) const;

 private:
  friend class PartBuilder;
  WorkerRef(PartBuilder& builder, int index) : builder_(&builder), index_(index) {}

  PartBuilder* builder_;
  int index_;
};

class PartBuilder {
 public:
  /// `in_place`: the part must also be right with input and output aliased.
  PartBuilder(const Shape& shape, int rank, bool in_place);

  int rank() const { return rank_; }
  int ranks() const { return shape_.ranks; }
  const Shape& shape() const { return shape_; }

  /// The worker with these peers, made at its first use.
  WorkerRef worker(int send_peer, int recv_peer, int channel = 0);
  WorkerRef local() { return worker(kNobody, kNobody); }
  /// Scratch cells nobody else has.
  Cells scratch(int count);

  RankProgram finish() &&;

 private:
  friend class WorkerRef;

  struct Reader {
    Dependency step;
    int next = -1;  // of the same cell, an index into readers_
  };
  struct History {
    Dependency writer{-1, -1};
    int first_reader = -1;  // since the last write
    int last_reader = -1;
  };

  void add(int worker, Step step);
  void add_notice(int worker, StepKind kind, int peer);
  static void order_after(int worker, const Dependency& earlier, std::vector<Dependency>& after);
  void add_reader(History& cell, const Dependency& reader);
  History& history_of(Buffer buffer, int chunk);
  /// Calls `visit` with the history of each of the rank's own cells among `cells`.
  template <typename Visit>
  void for_own(const std::vector<Cells>& cells, Visit visit);

  Shape shape_;
  int rank_;
  std::vector<int> aliases_;  // per input chunk, the output chunk that it is in place; -1: none
  std::vector<History> input_;
  std::vector<History> output_;
  std::vector<History> scratch_;
  std::vector<Reader> readers_;  // of all cells
  RankProgram part_;
};

/// The output chunk that `rank`'s input chunk is when the collective runs in place; -1: none.
int aliased_output(const Shape& shape, int rank, int input_chunk);

/// A program as a generator describes it; `emit` writes the part of the builder's rank.
struct Recipe {
  std::string name;
  Shape shape;
  bool in_place = true;
  bool one_sided = false;
  int channels = 1;  // channels `emit` uses
  Likeness likeness{};
  std::function<void(PartBuilder&)> emit;
};

/// If every rank does what rank 0 does, counted from itself: `position_of` as in Likeness.
inline Likeness all_alike(const Shape& shape, std::vector<int> position_of = {}) {
  if (has_root(shape.collective) || shape.collective == Collective::point_to_point) return {};
  return {Translations({{1, shape.ranks, true}}), std::move(position_of)};
}

/// The program of `instances` copies of the recipe side by side, each on its own channels and its own share of every
/// chunk. A single rank gets a copy of its input instead. With several instances, steps on many cells become as many
/// steps on one.
Program assemble(Recipe recipe, int instances);

}  // namespace tutti::generate
