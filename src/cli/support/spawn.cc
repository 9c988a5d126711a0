#include "cli/support/spawn.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tutti::cli {
namespace {

// Linux lets a second socket bind this port while the first does not listen and both set SO_REUSEADDR; it gives the
// port to nobody who asks for just any. So holding it bound keeps it for rank 0.
Result<std::pair<Fd, int>> reserve_port() {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return system_error("a socket for the ranks' meeting point");
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket.get(), generic, length) != 0 || ::getsockname(socket.get(), generic, &length) != 0)
    return system_error("a loopback port for the ranks' meeting point");
  return std::pair(std::move(socket), static_cast<int>(ntohs(address.sin_port)));
}

Result<std::string> random_secret() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return system_error("random bytes for the job's secret");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

struct OutputPipe {
  Fd read;
  Fd write;

  static Result<OutputPipe> create() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("a pipe for a rank's output");
    return OutputPipe{Fd(ends[0]), Fd(ends[1])};
  }
};

void set_environment(const JobDescription& job, int rank) {
  ::unsetenv("TUTTI_UNIQUE_ID");
  ::setenv("TUTTI_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("TUTTI_SIZE", std::to_string(job.ranks).c_str(), 1);
  ::setenv("TUTTI_LOCAL_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("TUTTI_LOCAL_SIZE", std::to_string(job.ranks).c_str(), 1);
  ::setenv("TUTTI_ADDRESS", job.address.c_str(), 1);
  if (!job.secret.empty()) ::setenv("TUTTI_SECRET", job.secret.c_str(), 1);
}

void pin_to(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  ::sched_setaffinity(0, sizeof cores, &cores);
}

// Standard input goes to rank 0 alone: several readers of one stream would each get a part of it.
void wire_descriptors(int rank, int out, int err) {
  if (rank != 0) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  }
  if (out >= 0) ::dup2(out, STDOUT_FILENO);
  if (err >= 0) ::dup2(err, STDERR_FILENO);
}

// Runs in the child; returns only where the program cannot be run, with errno saying why.
void become_rank(const JobDescription& job, int rank, const SpawnOptions& options, pid_t launcher, int out, int err) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(1);  // it died before we asked to be told
  if (options.own_group) ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (options.core >= 0) pin_to(options.core);
  wire_descriptors(rank, out, err);
  set_environment(job, rank);
  for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
}

}  // namespace

Result<JobDescription> JobDescription::create(int ranks) {
  JobDescription job;
  job.ranks = ranks;
  auto reserved = reserve_port();
  if (!reserved) return tl::unexpected(reserved.error());
  job.reservation = std::move(reserved->first);
  job.address = fmt::format("127.0.0.1:{}", reserved->second);
  if (std::getenv("TUTTI_SECRET") == nullptr && std::getenv("TUTTI_SECRET_FILE") == nullptr) {
    auto secret = random_secret();
    if (!secret) return tl::unexpected(secret.error());
    job.secret = std::move(*secret);
  }
  return job;
}

void RankProcess::signal(int number) const {
  if (!ended) ::kill(own_group ? -pid : pid, number);
}

Result<RankProcess> spawn(const JobDescription& job, int rank, const SpawnOptions& options) {
  // Descriptors of pipes must survive the fork until exec closes them, so they are plain numbers there.
  auto failure = OutputPipe::create();
  if (!failure) return tl::unexpected(failure.error());
  OutputPipe out, err;
  if (options.pipes) {
    auto first = OutputPipe::create();
    auto second = OutputPipe::create();
    if (!first || !second) return system_error("a pipe for a rank's output");
    out = std::move(*first);
    err = std::move(*second);
  }
  const int out_copy = out.write ? ::fcntl(out.write.get(), F_DUPFD_CLOEXEC, 3) : -1;
  const int err_copy = err.write ? ::fcntl(err.write.get(), F_DUPFD_CLOEXEC, 3) : -1;
  const int failure_copy = ::fcntl(failure->write.get(), F_DUPFD_CLOEXEC, 3);

  const pid_t launcher = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    become_rank(job, rank, options, launcher, out_copy, err_copy);
    const int reason = errno;
    (void)!::write(failure_copy, &reason, sizeof reason);
    ::_exit(127);
  }
  for (const int copy : {out_copy, err_copy, failure_copy})
    if (copy >= 0) ::close(copy);
  if (child < 0) return system_error(fmt::format("starting rank {}", rank));
  if (options.own_group) ::setpgid(child, child);  // whoever comes first; the other call is a no-op

  failure->write.reset();
  int reason = 0;
  if (::read(failure->read.get(), &reason, sizeof reason) == sizeof reason)
    return fail(ErrorCode::invalid_argument,
                fmt::format("cannot run '{}': {}", options.command.front(), std::strerror(reason)));
  RankProcess process;
  process.rank = rank;
  process.pid = child;
  process.own_group = options.own_group;
  process.out = std::move(out.read);
  process.err = std::move(err.read);
  return process;
}

}  // namespace tutti::cli
