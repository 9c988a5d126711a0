#include "agent/files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.hpp"

namespace tutti::agent {
namespace {

constexpr double kMoveCheck = 1.0;   // seconds between looks whether a file was rotated
constexpr double kSlowReader = 0.1;  // until a pipe that is full is tried again

bool takes_more(int descriptor) {
  pollfd entry{descriptor, POLLOUT, 0};
  return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

double EventFile::due() const { return outbox_.is_empty() ? std::numeric_limits<double>::infinity() : retry_; }

bool EventFile::was_moved() const {
  struct stat named {
  }, opened{};
  if (path_ == "-") return false;
  return ::stat(path_.c_str(), &named) != 0 || ::fstat(file_.get(), &opened) != 0 || named.st_ino != opened.st_ino ||
         named.st_dev != opened.st_dev;
}

Status EventFile::make_ready(double now) {
  if (file_ && now >= next_check_ && was_moved()) {
    file_.reset();
    outbox_.restart();
  }
  if (now >= next_check_) next_check_ = now + kMoveCheck;
  if (file_) return {};
  file_ = path_ == "-" ? Fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0))
                       : Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!file_) return system_error("it cannot be opened");
  return {};
}

void EventFile::work(double now) {
  if (now < due()) return;
  if (Status ready = make_ready(now); !ready) return fail_at(now, ready.error().message);
  for (std::string_view batch = outbox_.batch(); !batch.empty(); batch = outbox_.batch()) {
    if (!takes_more(file_.get())) {
      retry_ = now + kSlowReader;
      return;
    }
    const ssize_t written = ::write(file_.get(), batch.data(), batch.size());
    if (written < 0) return fail_at(now, system_error("it cannot be written").value().message);
    outbox_.wrote(static_cast<std::size_t>(written));
  }
  backoff_.reset();
  if (std::exchange(has_failed_, false)) log::info("events are written to {} again", path_);
}

void EventFile::fail_at(double now, const std::string& why) {
  ++failures_;
  has_failed_ = true;
  retry_ = now + backoff_.next();
  log_.warn(fmt::format("events are not written to {}, tried again with growing pauses: {}", path_, why), now);
}

void TextFile::write(double now, const std::string& text) {
  const Status replaced = replace(text);
  if (replaced) {
    backoff_.reset();
    due_ = now + interval_;
    return;
  }
  ++failures_;
  due_ = now + std::max(interval_, backoff_.next());
  log_.warn(fmt::format("metrics are not written to {}: {}", path_, replaced.error().message), now);
}

Status TextFile::replace(const std::string& text) const {
  struct stat found {};
  if (::stat(path_.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
    return fail(ErrorCode::invalid_argument, fmt::format("{} is not a regular file, so it is not replaced", path_));
  const std::string temporary = fmt::format("{}.{}.tmp", path_, ::getpid());
  const Fd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return system_error(fmt::format("{} cannot be made", temporary));
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t written = ::write(file.get(), left.data(), left.size());
    if (written <= 0) {
      const auto failed = system_error(fmt::format("{} cannot be written", temporary));
      ::unlink(temporary.c_str());
      return failed;
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::rename(temporary.c_str(), path_.c_str()) == 0) return {};
  const auto failed = system_error(fmt::format("{} cannot take the place of {}", temporary, path_));
  ::unlink(temporary.c_str());
  return failed;
}

}  // namespace tutti::agent
