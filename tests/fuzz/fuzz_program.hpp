// What must hold of every program that a reader accepts, however hostile the file.
#pragma once

#include <cstdlib>

#include "program/draw/show.hpp"
#include "program/file/format_json.hpp"

namespace tutti {

/// Small enough that all its ranks can be expanded for every input.
inline bool is_small(const Program& program) {
  if (program.shape.ranks > 64) return false;
  std::size_t steps = 0;
  for (int rank = 0; rank < program.shape.ranks && steps < 4096; ++rank)
    for (const Worker& worker : program.part(rank).workers) steps += worker.steps.size();
  return steps < 4096;
}

/// Saving and loading gives the same parts, and pictures can be drawn.
inline void require_round_trip(const Program& program) {
  const Result<std::string> text = save_json(program);
  if (!text) std::abort();
  const Result<Program> again = load_json(*text);
  if (!again) std::abort();
  for (int rank = 0; rank < program.shape.ranks; ++rank)
    if (again->part(rank) != program.part(rank)) std::abort();
  if (show_text(program, 4).empty() || show_svg(program).empty()) std::abort();
}

}  // namespace tutti
