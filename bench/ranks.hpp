// Ranks of a bench: processes of this host that get a unique id.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] inline void give_up(const std::string& why) {
  std::fprintf(stderr, "bench: %s\n", why.c_str());
  std::_Exit(1);
}

inline void check(const Status& status) {
  if (!status) give_up(status.error().to_string());
}

/// Runs `body` on `size` processes and returns what each of them came to.
template <typename Answer>
std::vector<Answer> on_processes(int size, const std::function<Answer(int rank, const std::string& id)>& body) {
  const std::size_t bytes = sizeof(Answer) * static_cast<std::size_t>(size);
  auto* const results =
      static_cast<Answer*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  int to_others[2];
  if (results == MAP_FAILED || pipe(to_others) != 0) give_up("no memory to share");
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string id(2 * UniqueId::kBytes, ' ');
    if (rank == 0) {
      const auto made = UniqueId::create();
      if (!made) give_up(made.error().to_string());
      id = made->to_string();
      for (int other = 1; other < size; ++other)
        if (write(to_others[1], id.data(), id.size()) < 0) give_up("cannot tell the others");
    } else if (read(to_others[0], id.data(), id.size()) != static_cast<ssize_t>(id.size())) {
      give_up("heard nothing");
    }
    results[rank] = body(rank, id);
    std::_Exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) give_up("a rank failed");
  }
  std::vector<Answer> answers(results, results + size);
  munmap(results, bytes);
  close(to_others[0]);
  close(to_others[1]);
  return answers;
}

inline Communicator join(int rank, int size, const std::string& id) {
  Options options = Options::from_environment();
  options.timeout = options.join_timeout = 30;
  auto communicator = Communicator::create(UniqueId::from_string(id).value(), rank, size, options);
  if (!communicator) give_up(communicator.error().to_string());
  return std::move(*communicator);
}

}  // namespace tutti::bench
