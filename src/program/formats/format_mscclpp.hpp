// Execution plans of MSCCL++ (JSON), for its executor: programs leave the house that way, they are not read back.
//
// A worker becomes a thread block, or several where it is long; where they would need more semaphores than the executor
// has, short ones are done by one block, in an order in which the program cannot deadlock. A send becomes a put into
// the receiver's memory and a signal, on a memory channel within a node and on a port channel between nodes; a receive
// waits for it. The put goes straight to where the chunk belongs if nothing else was there before; otherwise to one of
// a few landing cells in the receiver's scratch, from where it is copied or reduced, and the receiver signals when the
// cell is free again. Every receiver tells its senders first of all that it has begun. Reductions are sums: the
// executor knows no others. One-sided programs, gathers and scatters are not for it.
#pragma once

#include <string>
#include <vector>

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct MscclppOptions {
  std::vector<int> node_of_rank;  // empty: all on one
  bool in_place = false;          // for calls in place; the others are for calls out of place
  int landing_cells = 2;          // puts a sender may be ahead of its receiver, where they do not go straight
};

/// Fails for a program that does not pass the checker, and with a sentence that names the step or the limit in the way:
/// 64 operations and 16 channels of a kind a thread block, 16 semaphores and 108 thread blocks a rank.
Result<std::string> save_mscclpp(const Program& program, const MscclppOptions& options = {});

}  // namespace tutti
