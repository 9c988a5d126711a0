#include "cli/doctor/sibling.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

namespace tutti::cli {
namespace {

constexpr std::uint64_t kPattern = 0x74757474692121ULL;
volatile std::uint64_t g_probe = 0;

// The process that is read. Waits to be killed, and does not outlive its parent.
pid_t start_target() {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) ::pause();
}

int read_from(pid_t target) {
  std::uint64_t value = 0;
  iovec local{&value, sizeof value};
  iovec remote{const_cast<std::uint64_t*>(&g_probe), sizeof g_probe};
  if (::process_vm_readv(target, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(sizeof value)) return errno;
  return value == kPattern ? 0 : EIO;
}

int open_from(pid_t target, int descriptor) {
  const int opened = ::open(fmt::format("/proc/{}/fd/{}", target, descriptor).c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return errno;
  ::close(opened);
  return 0;
}

}  // namespace

int try_memfd() {
  constexpr std::size_t kBytes = 1 << 16;
  const int descriptor = ::memfd_create("tutti-doctor", MFD_CLOEXEC);
  if (descriptor < 0) return errno;
  int error = ::posix_fallocate(descriptor, 0, kBytes);
  if (error == 0) {
    void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED) error = errno;
    if (mapped != MAP_FAILED) ::munmap(mapped, kBytes);
  }
  ::close(descriptor);
  return error;
}

ReachFacts try_sibling() {
  ReachFacts facts;
  const std::string scope = read_line("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope.empty()) facts.yama_scope = std::atoi(scope.c_str());
  const int memory = ::memfd_create("tutti-doctor", MFD_CLOEXEC);
  int answer[2];
  if (memory < 0 || ::pipe2(answer, O_CLOEXEC) != 0) return {errno, errno, facts.yama_scope};
  g_probe = kPattern;
  const pid_t target = start_target();
  g_probe = 0;
  const pid_t reader = target < 0 ? -1 : ::fork();
  if (reader == 0) {
    const int errors[2] = {read_from(target), open_from(target, memory)};
    ::_exit(::write(answer[1], errors, sizeof errors) == sizeof errors ? 0 : 1);
  }
  ::close(answer[1]);
  int errors[2] = {EAGAIN, EAGAIN};  // where no process could be started
  if (reader > 0) {
    (void)!::read(answer[0], errors, sizeof errors);
    ::waitpid(reader, nullptr, 0);
  }
  if (target > 0) {
    ::kill(target, SIGKILL);
    ::waitpid(target, nullptr, 0);
  }
  ::close(answer[0]);
  ::close(memory);
  facts.read_errno = errors[0];
  facts.open_errno = errors[1];
  return facts;
}

}  // namespace tutti::cli
