// The death of a process, and how sure it is. Known and presumed deaths call for different decisions, so that whoever
// passes a death on passes its certainty on, too. Plain values.
#pragma once

#include <cstdint>

#include "tutti/error.hpp"

namespace tutti {

enum class Certainty : std::uint8_t {
  presumed,  // it is silent, or cannot be reached: it may live on the far side of a network that fell apart
  known,     // its end was seen: by its host, by the end of its stream, or it said goodbye
};

struct Death {
  Error error;
  Certainty certainty = Certainty::presumed;
};

}  // namespace tutti
