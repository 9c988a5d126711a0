// The memory of a run: every chunk of every buffer of every rank as one numbered cell, with input and output cells
// falling together where the operation runs in place. Internal to the checker and to plans (mscclpp_plan.hpp).
//   in place   all_reduce, reduce, broadcast (at the root), barrier, all_to_all: input i is output i;
//              all_gather, gather (at the root): input j is output rank * chunks + j;
//              reduce_scatter, scatter (at the root): output j is input rank * chunks + j.
// The extent of a chunk is bound at the call, so two chunks may be taken for each other only if they are the same part
// of the operation; that is their *extent*, a number. Scratch holds any.
// With a symmetry there are the cells of the representatives. Who touches a cell of another rank does what he would do
// to a cell of its representative if he were translated back with it.
#pragma once

#include <string>
#include <vector>

#include "program/check/check_graph.hpp"
#include "program/check/check_parts.hpp"

namespace tutti::checking {

enum class Placement { out_of_place, in_place };

/// Consecutive cells that an event touches under one name.
struct Located {
  int owner;  // a rank
  int first;  // cell, of the owner's representative
  int count;
  int translation;  // takes the owner to its representative
};

class CellMap {
 public:
  /// Keeps a reference to `parts`.
  CellMap(const ProgramParts& parts, Placement placement);

  int size() const { return size_; }
  /// Of a representative.
  int cell(int rank, Buffer buffer, int chunk) const { return base(rank, buffer) + chunk; }
  /// `cells`, as a step of a representative names them.
  Located locate(int rank, const Cells& cells) const {
    const int owner = cells.rank == kSelf ? rank : cells.rank;
    const int translation = orbits_.opposite(orbits_.translation_of(owner));
    return {owner, cell(owner, cells.buffer, orbits_.translated_chunk(cells.buffer, cells.first, translation)),
            cells.count, translation};
  }
  /// The first of `cells`, as a step of `rank` names them. Without a symmetry only.
  int first_cell(int rank, const Cells& cells) const { return locate(rank, cells).first; }
  /// A copy whose source and target fall together: it does nothing.
  bool moves_onto_itself(int rank, const Step& step) const {
    if (step.kind != StepKind::copy) return false;
    const Located source = locate(rank, step.sources[0]);
    const Located target = locate(rank, step.targets[0]);
    return source.owner == target.owner && source.first == target.first;
  }
  /// True if the cell is (also) one of the outputs of the owner's representative.
  bool is_output(int owner, int cell) const;
  /// The output of the owner's representative that would be its input `cell` in place; kNone if there is none.
  int output_in_place(int owner, int cell) const {
    const Bases& bases = bases_of(owner);
    const int output = cell - base(owner, Buffer::input) + bases.first_shared;
    return output >= 0 && output < bases.outputs ? base(owner, Buffer::output) + output : kNone;
  }

 private:
  struct Bases {
    int buffer[3];
    int outputs;
    int first_shared;  // in place, which output the first input would be; may be no output
  };
  const Bases& bases_of(int rank) const { return bases_[static_cast<std::size_t>(orbits_.representative_index(rank))]; }
  int base(int rank, Buffer buffer) const { return bases_of(rank).buffer[static_cast<std::size_t>(buffer)]; }

  const Orbits& orbits_;
  std::vector<Bases> bases_;  // by representative
  int size_ = 0;
};

/// The extent of a chunk of an input or output; kNone for scratch.
inline int extent_of(const Shape& shape, int rank, Buffer buffer, int chunk) {
  if (buffer == Buffer::scratch) return kNone;
  const bool is_input = buffer == Buffer::input;
  switch (shape.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return is_input ? rank * shape.chunks + chunk : chunk;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return is_input ? chunk : rank * shape.chunks + chunk;
    case Collective::all_to_all: {
      const int other = chunk / shape.chunks;
      const int source = is_input ? rank : other;
      const int target = is_input ? other : rank;
      return (source * shape.ranks + target) * shape.chunks + chunk % shape.chunks;
    }
    default:
      return chunk;
  }
}
/// "chunk 3", "chunk 0 of block 2", "chunk 0 from rank 1 to rank 2"
std::string describe_extent(const Shape& shape, int extent);

}  // namespace tutti::checking
