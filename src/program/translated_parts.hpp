// What a rank does, done by another: where ranks differ by a translation only, one part of a program stands for all.
// Ranks are translated, and so are blocks, of which a buffer has one for every rank; scratch stays as it is. Only for
// collectives without a root, whose buffers are the same on all ranks. Pure functions.
#pragma once

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Chunks of a block, if the buffer holds one block for every rank, which is translated as the rank is; else 0.
int chunks_of_block(const Shape& shape, Buffer buffer);

/// Whether the part can be translated: the cells that a step names at once stay side by side, within one block or in
/// blocks that are translated alike. The error names the step.
Status check_translatable(const RankProgram& part, const Shape& shape, const Translations& translations);

/// What the rank does that the translation by `by` takes the part's rank to.
RankProgram translated(RankProgram part, const Shape& shape, const Translations& translations, int by);

/// The parts of all ranks by those of the representatives (Translations::representative_of), in the order of their
/// numbers.
std::function<RankProgram(int rank)> translated_parts(std::vector<RankProgram> representatives, const Shape& shape,
                                                      const Translations& translations);

/// The program with ranks numbered by their positions, and blocks that belong to ranks with them; chunks of the whole
/// vector (all_reduce) stay; and with copies chunk by chunk, if the likeness says so. It is right if and only if the
/// program is.
Program by_position(const Program& program);

}  // namespace tutti
