#include "cli/support/interrupts.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace tutti::cli {

Interrupts::Interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, &before_);
  signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Interrupts::~Interrupts() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

Status Interrupts::check() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) == sizeof info) number_ = static_cast<int>(info.ssi_signo);
  if (number_ != 0) return fail(ErrorCode::aborted, "interrupted");
  return {};
}

Status Interrupts::sleep(double seconds) {
  const Deadline end = Deadline::in(seconds);
  while (!end.passed()) {
    pollfd entry{signals_.get(), POLLIN, 0};
    ::poll(&entry, 1, end.poll_milliseconds());
    if (auto undisturbed = check(); !undisturbed) return undisturbed;
  }
  return {};
}

}  // namespace tutti::cli
