// The memory of a run: every chunk of every buffer of every rank as one numbered cell, with input and output cells
// falling together where the operation runs in place. Internal to the checker and to plans (mscclpp_plan.hpp).
//   in place   all_reduce, reduce, broadcast (at the root), barrier, all_to_all: input i is output i;
//              all_gather, gather (at the root): input j is output rank * chunks + j;
//              reduce_scatter, scatter (at the root): output j is input rank * chunks + j.
// The extent of a chunk is bound at the call, so two chunks may be taken for each other only if they are the same part
// of the operation; that is their *extent*, a number. Scratch holds any.
#pragma once

#include <string>
#include <vector>

#include "program/check/check_graph.hpp"
#include "program/check/check_parts.hpp"

namespace tutti::checking {

enum class Placement { out_of_place, in_place };

/// Consecutive cells that an event touches under one name.
struct Located {
  int owner;
  int first;  // cell
  int count;
};

class CellMap {
 public:
  CellMap(const ProgramParts& parts, Placement placement);

  int size() const { return size_; }
  int cell(int rank, Buffer buffer, int chunk) const { return base(rank, buffer) + chunk; }
  /// The first of `cells`, as a step of `rank` names them.
  int first_cell(int rank, const Cells& cells) const {
    return cell(cells.rank == kSelf ? rank : cells.rank, cells.buffer, cells.first);
  }
  /// A copy whose source and target fall together: it does nothing.
  bool moves_onto_itself(int rank, const Step& step) const {
    return step.kind == StepKind::copy && first_cell(rank, step.sources[0]) == first_cell(rank, step.targets[0]);
  }
  /// What an event of `rank` touches of `cells`: one chunk where its step goes chunk by chunk.
  Located locate(int rank, const Cells& cells, const Step& step, const StepEvent& event) const;
  /// True if the cell is (also) one of the owner's outputs.
  bool is_output(int owner, int cell) const;

 private:
  struct Bases {
    int buffer[3];
    int outputs;
  };
  int base(int rank, Buffer buffer) const {
    return bases_[static_cast<std::size_t>(rank)].buffer[static_cast<std::size_t>(buffer)];
  }

  std::vector<Bases> bases_;
  int size_ = 0;
};

/// The extent of a chunk of an input or output; kNone for scratch.
int extent_of(const Shape& shape, int rank, Buffer buffer, int chunk);
/// "chunk 3", "chunk 0 of block 2", "chunk 0 from rank 1 to rank 2"
std::string describe_extent(const Shape& shape, int extent);

}  // namespace tutti::checking
