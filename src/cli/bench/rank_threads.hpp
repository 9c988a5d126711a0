// Ranks that are threads of this process, each with its communicator.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::cli {

/// Runs `body` once for each communicator, on a thread each, and waits for all. If a thread cannot be started, aborts
/// the communicators, so that the threads which run do not wait for it, and returns why.
Status run_ranks(std::vector<Communicator>& communicators, const std::function<void(std::size_t)>& body);

}  // namespace tutti::cli
