// Programs for people's eyes: a table, and a picture.
#pragma once

#include <string>

#include "program/program.hpp"

namespace tutti {

/// A table of the steps of the first `max_ranks` ranks, one section for each worker.
std::string show_text(const Program& program, int max_ranks);

/// An SVG document: a row for each worker, a box for each step, placed in the earliest column that program order,
/// dependencies and matched transfers allow; arrows are transfers, signals and dependencies. Shows the first 32 ranks
/// and 64 columns, and says so where there are more; steps that wait in a circle stand last, framed in red.
std::string show_svg(const Program& program);

/// "output 3-5", "input 0 of rank 2"
std::string show_cells(const Cells& cells);

}  // namespace tutti
