// Programs from files, for tools: a program installed in a communicator runs instead of the built-in ones.
#pragma once

#include "program/check/proof.hpp"
#include "program/program.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// From now on calls of the program's collective, within its size range, run it. All ranks must install the same,
/// between the same calls.
Status install_program(Communicator& communicator, ProvenProgram program);
/// Proves the program first, for the communicator's rank. It must be of as many ranks.
Status install_program(Communicator& communicator, Program program);

}  // namespace tutti
