// For tests: a process that may make no thread, as one whose user has used up its processes.
#pragma once

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

namespace tutti {

/// ThreadSanitizer ends a process that starts threads after it was forked from one that had some.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kCanRunWithoutThreads = false;
#else
inline constexpr bool kCanRunWithoutThreads = true;
#endif

/// What `body` returns in a child of fork that can make no thread; "died" if it ended otherwise.
inline std::string run_without_threads(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{1, 1};
    // The limit binds nobody who is root.
    if (::setrlimit(RLIMIT_NPROC, &none) != 0 || (::getuid() == 0 && ::setuid(54321) != 0)) ::_exit(2);
    const std::string said = body();
    ::_exit(::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 3);
  }
  ::close(ends[1]);
  std::string said;
  std::array<char, 4096> buffer{};
  for (ssize_t bytes = 0; (bytes = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    said.append(buffer.data(), static_cast<std::size_t>(bytes));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? said : "died";
}

}  // namespace tutti
