#include "base/thread.hpp"

#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>

#include <system_error>

namespace tutti {
namespace {

/// Threads inherit the mask of the thread that starts them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Result<std::thread> start_thread(const std::string& name, std::function<void()> body) {
  const SignalsBlocked blocked;
  try {
    return std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name.c_str());
      body();
    });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::system, fmt::format("cannot start the thread {}: {} (see ulimit -u, and pids.max of the "
                                               "control group)",
                                               name, error.code().message()));
  }
}

}  // namespace tutti
