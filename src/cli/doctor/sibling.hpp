// Experiments on this kernel: what two processes that are siblings, as ranks are, may do to each other's memory.
// Parent and child would not do: Yama lets a parent read its child and still forbids siblings.
#pragma once

#include "cli/doctor/doctor.hpp"

namespace tutti::cli {

/// Starts two children, of which one reads the other's memory and maps its memfd.
ReachFacts try_sibling();

/// errno of making, filling and mapping a memfd; 0 when it works.
int try_memfd();

}  // namespace tutti::cli
