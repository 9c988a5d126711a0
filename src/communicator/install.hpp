// Programs from files, for tools: a program installed in a communicator runs instead of the built-in ones.
#pragma once

#include "program/program.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// From now on calls of the program's collective, within its size range, run it. It must have passed the checker; all
/// ranks must install the same, between the same calls.
Status install_program(Communicator& communicator, Program program);

}  // namespace tutti
