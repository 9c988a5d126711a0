// The one loop that times every library. For each collective and size: batches of operations, each from a send buffer
// written anew just before, outside of the timing; a repetition is as many batches as fit its share of the time, its
// cost the slowest rank's mean, the row the minimum over repetitions. The last batch's result is verified.
// Rank 0 prints a row as one line of JSON on standard output.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "library.hpp"
#include "meeting.hpp"

namespace peers {

struct Options {
  std::vector<Collective> collectives;
  std::size_t smallest = 8;
  std::size_t largest = 1 << 20;
  std::size_t factor = 4;  // sizes are smallest * factor^n, and largest
  double point_ms = 30;    // time for one collective at one size, where one operation takes less
  int ranks = 2;
  bool pin = true;  // each rank on a core of its own, where there are enough
  std::vector<int> cores;
  std::string memory = "ordinary";
  std::string label;  // the library's name in the rows; empty: the adapter's
};

/// From the command line; also confines the process to its core, so call it before the library starts its threads.
Options read_options(int argc, char** argv);

void run_loop(Library& library, const std::string& name, const Options& options);

}  // namespace peers
