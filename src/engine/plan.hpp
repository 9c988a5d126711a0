// A program made ready to run on one rank of one communicator: peers resolved to links, the guards worked out that
// keep sent memory unchanged until it is released. Compiled once per program; runs any number of times.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "transport/link.hpp"

namespace tutti {

/// What a plan needs of the communicator: the ends of links, opened on first use and kept.
class Links {
 public:
  virtual ~Links() = default;
  virtual Result<SendLink*> send_link(int rank, int channel) = 0;
  virtual Result<RecvLink*> recv_link(int rank, int channel) = 0;
  /// Returns the bytes that every link between ranks of the communicator takes before its receiver takes any. The same
  /// on all ranks, since it decides how chunks are cut into tiles.
  virtual std::size_t window() const = 0;
};

struct PlanStep {
  Step step;
  bool copies = false;             // a send whose memory this rank overwrites later, maybe before the receiver takes it
  std::vector<Dependency> guards;  // sends of this rank whose memory must be released before this step writes
  bool forwards_unstored = false;  // the result is sent on from a temporary
  bool pushes = false;             // writes into a peer's input or output
  bool conditional = false;        // waits for something before it begins: dependencies, guards, peers' entries
  int first_chunk = 0;             // the step's chunks among all of the plan: those of each of its cells in turn
};

struct PlanWorker {
  int channel = 0;
  int send_rank = kNobody;
  int recv_rank = kNobody;
  SendLink* send = nullptr;
  RecvLink* recv = nullptr;
  std::vector<PlanStep> steps;
};

struct Plan {
  std::string name;
  Shape shape;
  int rank = 0;                   // in the program
  std::uint32_t recorded_as = 0;  // what the process's recording calls it
  std::size_t link_window = 0;    // Links::window()
  bool one_sided = false;
  int chunks = 0;  // of all steps' cells
  int scratch_chunks = 0;
  int stage_chunks = 0;  // one-sided: the most scratch chunks any rank has; peers can reach them
  bool all_hear = true;  // every rank hears of every other: its scratch may be read until the program after the next
  bool reaches = false;  // reads or writes peers' input or output
  std::vector<Cells> scratch_like;  // per scratch chunk: an input or output cell of its size; count 0: not known
  std::vector<PlanWorker> workers;
  std::vector<int> touched;     // ranks whose memory this one reads or writes: it waits for their entry
  std::vector<int> neighbours;  // those, and the ranks it signals or waits for

  /// Whether it can run blocks of different sizes: the size of every chunk in scratch is known.
  bool fits_uneven() const;
};

/// Returns an operand of a step: its sources, then its targets.
inline const Cells& operand_of(const Step& step, std::size_t operand) {
  const std::size_t sources = step.sources.size();
  return operand < sources ? step.sources[operand] : step.targets[operand - sources];
}

/// A plan, and how many bytes of a chunk are run through all of it at a time; 0: all.
struct TiledPlan {
  const Plan* plan = nullptr;
  std::size_t tile = 0;
};

/// Compiles a rank's part of a program. `ranks`: communicator rank of each program rank; empty: the same.
Result<std::unique_ptr<Plan>> compile(const Program& program, int rank, bool in_place, Links& links,
                                      const std::vector<int>& ranks = {});

}  // namespace tutti
