// Threads of the library. Signals belong to the application, so none is delivered to them. The system may refuse to
// make a thread (a limit on processes, no memory for a stack); that is an error like any other, never the end of the
// process.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Starts a thread that runs `body` with all signals blocked. `name`, at most 15 characters, is what debuggers and `ps`
/// show. ErrorCode::system if the system makes no thread: the message has the name and the reason.
Result<std::thread> start_thread(const std::string& name, std::function<void()> body);

/// Runs `work` on a thread of its own and gives up on it at the deadline: for calls into libraries that know no
/// deadline. `work` must own what it uses: after a timeout it goes on, unobserved.
Status run_before(Deadline deadline, const std::string& what, std::function<Status()> work);

}  // namespace tutti
