#include "bootstrap/pmi.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.hpp"
#include "net/socket.hpp"

namespace tutti {
namespace {

constexpr std::size_t kMaxLine = 4096;
constexpr std::size_t kMaxValue = 1023;

// One command, one line of answer. The manager pushes nothing of its own, so nothing is read beyond the line.
class PmiChannel {
 public:
  PmiChannel(int descriptor, Deadline deadline) : descriptor_(descriptor), deadline_(deadline) {}

  Result<std::string> call(const std::string& command, const std::string& expected) {
    if (auto sent = send_text(command + "\n"); !sent) return tl::unexpected(sent.error());
    auto line = receive_line();
    if (!line) return line;
    if (pmi_field(*line, "cmd") != expected)
      return fail(ErrorCode::system, fmt::format("the process manager answered '{}' to '{}'", *line, command));
    const std::string code = pmi_field(*line, "rc");
    if (!code.empty() && code != "0")
      return fail(ErrorCode::system, fmt::format("the process manager refused '{}': {}", command, *line));
    return line;
  }

 private:
  Status send_text(const std::string& text) {
    std::size_t sent = 0;
    while (sent < text.size()) {
      if (auto ready = wait(POLLOUT); !ready) return ready;
      const ssize_t count = ::send(descriptor_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno != EINTR && errno != EAGAIN) return system_error("talking to the process manager");
      sent += count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    return {};
  }

  Result<std::string> receive_line() {
    std::string line;
    while (line.size() < kMaxLine) {
      if (auto ready = wait(POLLIN); !ready) return tl::unexpected(ready.error());
      char letter = 0;
      const ssize_t count = ::read(descriptor_, &letter, 1);
      if (count == 0) return fail(ErrorCode::system, "the process manager closed its connection");
      if (count < 0 && errno != EINTR && errno != EAGAIN) return system_error("listening to the process manager");
      if (count == 1 && letter == '\n') return line;
      if (count == 1) line += letter;
    }
    return fail(ErrorCode::system, "the process manager's answer has no end");
  }

  Status wait(short events) {
    auto ready = wait_for(descriptor_, events, deadline_);
    if (!ready && ready.error().code == ErrorCode::timed_out)
      return fail(ErrorCode::timed_out, "not all ranks have come to the process manager's barrier in time");
    return ready;
  }

  int descriptor_;
  Deadline deadline_;
};

// Hydra ends the whole job when a process that has spoken to it goes without a farewell. It is said at exit and not
// before, because the manager hears nothing after it, and an MPI library in this process may have more to say; one that
// has said its own farewell by then has closed the descriptor.
class Farewell {
 public:
  explicit Farewell(int descriptor) : descriptor_(descriptor), owner_(::getpid()) { ::fstat(descriptor, &known_); }
  ~Farewell() {
    struct stat now {};
    const bool same = ::fstat(descriptor_, &now) == 0 && now.st_dev == known_.st_dev && now.st_ino == known_.st_ino;
    if (!same || owner_ != ::getpid()) return;
    (void)PmiChannel(descriptor_, Deadline::in(1)).call("cmd=finalize", "finalize_ack");
  }
  Farewell(const Farewell&) = delete;
  Farewell& operator=(const Farewell&) = delete;

 private:
  int descriptor_;
  int owner_;
  struct stat known_ {};
};

}  // namespace

std::string pmi_field(const std::string& line, const std::string& field) {
  std::size_t start = 0;
  while (start < line.size()) {
    const std::size_t end = std::min(line.find(' ', start), line.size());
    const std::size_t equals = line.find('=', start);
    if (equals < end && line.compare(start, equals - start, field) == 0)
      return line.substr(equals + 1, end - equals - 1);
    start = end + 1;
  }
  return {};
}

Result<std::string> broadcast_by_pmi(int descriptor, int rank, const std::string& key, const std::string& value,
                                     Deadline deadline) {
  if (value.size() > kMaxValue || value.find_first_of(" \t\n") != std::string::npos)
    return fail(ErrorCode::internal, "a value that PMI-1 cannot carry");
  static const Farewell farewell(descriptor);
  // No cmd=init: that is left to an MPI library in this process, and Hydra does not ask for it.
  PmiChannel channel(descriptor, deadline);
  auto answer = channel.call("cmd=get_my_kvsname", "my_kvsname");
  if (!answer) return answer;
  const std::string space = pmi_field(*answer, "kvsname");
  if (rank == 0) {
    answer = channel.call(fmt::format("cmd=put kvsname={} key={} value={}", space, key, value), "put_result");
    if (!answer) return answer;
  }
  answer = channel.call("cmd=barrier_in", "barrier_out");
  if (!answer) return answer;
  answer = channel.call(fmt::format("cmd=get kvsname={} key={}", space, key), "get_result");
  if (!answer) return answer;
  return pmi_field(*answer, "value");
}

}  // namespace tutti
