#include "base/thread.hpp"

#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>

namespace tutti {
namespace {

/// Threads inherit the mask of the thread that starts them. Signals that a thread raises by its own fault stay open:
/// blocked, they would end the process without the handler (crash reports, sanitizers) that someone installed.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&all, own);
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

Status run_before(Deadline deadline, const std::string& what, std::function<Status()> work) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable finished;
    std::optional<Status> result;
  };
  auto shared = std::make_shared<Shared>();
  auto thread = start_thread("tutti-helper", [shared, work = std::move(work)] {
    auto result = work();
    const std::lock_guard lock(shared->mutex);
    shared->result = std::move(result);
    shared->finished.notify_all();
  });
  if (!thread) return fail(ErrorCode::system, fmt::format("{}: {}", what, thread.error().message));
  thread->detach();
  std::unique_lock lock(shared->mutex);
  while (!shared->result && !deadline.passed())
    shared->finished.wait_for(lock, std::chrono::milliseconds(deadline.poll_milliseconds(1000)));
  if (!shared->result) return fail(ErrorCode::timed_out, what + " took too long");
  return *shared->result;
}

}  // namespace tutti
