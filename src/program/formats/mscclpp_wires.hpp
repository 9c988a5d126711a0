// How the steps of a two-sided program hang together: who sends to whom, in which order all can happen, and where what
// is sent lands. Internal to format_mscclpp.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "program/check/check_parts.hpp"
#include "program/formats/mscclpp_plan.hpp"

namespace tutti::mscclpp {

inline constexpr int kNone = -1;

/// A connection, and what of its receives land in cells of their own.
struct Wire {
  PlanConnection connection;
  std::vector<int> sends, receives;  // steps, the i-th of both belong together
  std::vector<int> landing;          // by receive: the how many-th to land in scratch; kNone: straight to its place
  int landed = 0;                    // receives that land in scratch
  int cells = 0;                     // landing cells, used in turns
  int cell_chunks = 0;               // size of each
  int first_chunk = 0;               // of the first in the target's scratch

  /// Where the i-th transfer is put, as the target names it.
  Cells landing_cells(int receive, int chunks) const {
    const int cell = landing[static_cast<std::size_t>(receive)] % cells;
    return {kSelf, Buffer::scratch, first_chunk + cell * cell_chunks, chunks};
  }
};

struct StepWires {
  int send = kNone, send_index = 0;  // wire, and the how many-th on it
  int receive = kNone, receive_index = 0;
};

class WireTable {
 public:
  /// The program must have passed the checker.
  static Result<WireTable> of(const checking::ProgramParts& parts, const MscclppOptions& options);

  const std::vector<Wire>& wires() const { return wires_; }
  const Wire& wire(int index) const { return wires_[static_cast<std::size_t>(index)]; }
  const StepWires& of_step(int step) const { return of_step_[static_cast<std::size_t>(step)]; }
  /// Steps are numbered through all workers of all ranks.
  int step_number(int worker, int step) const { return first_step_[static_cast<std::size_t>(worker)] + step; }
  /// The place of a step in an order in which all can happen.
  int position(int step) const { return position_[static_cast<std::size_t>(step)]; }
  int scratch_chunks(int rank) const { return scratch_chunks_[static_cast<std::size_t>(rank)]; }
  const Step& step(int number) const { return *steps_[static_cast<std::size_t>(number)]; }

 private:
  void number_steps(const checking::ProgramParts& parts);
  void connect(const checking::ProgramParts& parts, const MscclppOptions& options);
  Status order(const checking::ProgramParts& parts, int landing_cells);
  void choose_landings(const checking::ProgramParts& parts, const MscclppOptions& options);
  int wire_between(int source, int target, int channel, const MscclppOptions& options);

  std::vector<int> first_step_;  // by worker
  std::vector<const Step*> steps_;
  std::vector<int> rank_of_step_;
  std::vector<StepWires> of_step_;
  std::vector<int> position_;
  std::vector<Wire> wires_;
  std::map<std::tuple<int, int, int>, int> by_ends_;
  std::vector<int> scratch_chunks_;
};

}  // namespace tutti::mscclpp
