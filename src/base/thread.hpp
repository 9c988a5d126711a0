// Threads of the library. Signals belong to the application, so none is delivered to them. The system may refuse to
// make a thread (a limit on processes, no memory for a stack); that is an error like any other, never the end of the
// process.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "tutti/error.hpp"

namespace tutti {

/// Starts a thread that runs `body` with all signals blocked. `name`, at most 15 characters, is what debuggers and `ps`
/// show. ErrorCode::system if the system makes no thread: the message has the name and the reason.
Result<std::thread> start_thread(const std::string& name, std::function<void()> body);

}  // namespace tutti
