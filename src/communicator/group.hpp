// The operations a thread has issued inside a Group and not yet run.
#pragma once

#include <memory>

#include "communicator/impl.hpp"

namespace tutti {

/// Whether this thread has a group open.
bool in_group();

/// True where this thread has a group open; the call was put into it.
bool put_in_group(const std::shared_ptr<CommunicatorImpl>& communicator, const Call& call);

}  // namespace tutti
