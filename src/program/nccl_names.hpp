// What NCCL and the tools made for it call things: for metrics and plugins that were written for NCCL. Any thread.
#pragma once

#include "program/program.hpp"

namespace tutti {

/// "AllReduce"; of a point-to-point "Send" or "Recv". NCCL itself has no "Barrier".
const char* nccl_name_of(Collective collective, bool sends);

}  // namespace tutti
