#include "cli/demo/network_namespace.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <net/if.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tutti::cli {
namespace {

constexpr const char* kOwn = "/proc/thread-self/ns/net";

std::string read_line(int descriptor) {
  std::string text;
  char buffer[512];
  for (ssize_t got = 0; (got = ::read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text.substr(0, text.find('\n'));
}

}  // namespace

Result<NetworkNamespace> NetworkNamespace::create() {
  Fd home(::open(kOwn, O_RDONLY | O_CLOEXEC));
  if (!home || ::unshare(CLONE_NEWNET) != 0) return system_error("a network namespace");
  Fd own(::open(kOwn, O_RDONLY | O_CLOEXEC));
  if (::setns(home.get(), CLONE_NEWNET) != 0 || !own) return system_error("back from a network namespace");
  return NetworkNamespace(std::move(home), std::move(own));
}

Status NetworkNamespace::inside(const std::function<Status()>& what) const {
  if (::setns(own_.get(), CLONE_NEWNET) != 0) return system_error("into a network namespace");
  Status done = what();
  if (::setns(home_.get(), CLONE_NEWNET) != 0) return system_error("back from a network namespace");
  return done;
}

std::string NetworkNamespace::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), own_.get()); }

Status run_quietly(const std::vector<std::string>& words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("a pipe");
  const Fd errors(ends[0]);
  Fd writes(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writes.get(), STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  const int reason = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (reason != 0) return fail(ErrorCode::system, fmt::format("{}: {}", words[0], std::strerror(reason)));
  writes.reset();
  const std::string said = read_line(errors.get());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return {};
  return fail(ErrorCode::system, fmt::format("{}: {}", fmt::join(words, " "), said.empty() ? "failed" : said));
}

bool is_running(const std::string& interface) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
  return ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) != 0;
}

}  // namespace tutti::cli
