// Programs that no proof has passed, for tests of what the engine does with them.
#pragma once

#include <utility>

#include "program/check/proof.hpp"

namespace tutti {

struct UnprovenForTests {
  static ProvenProgram make(Program program) { return ProvenProgram(std::move(program)); }
};

}  // namespace tutti
