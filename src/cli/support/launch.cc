#include "cli/support/launch.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "bootstrap/launch.hpp"
#include "cli/support/lines.hpp"
#include "cli/support/spawn.hpp"
#include "cli/support/terminal.hpp"

namespace tutti::cli {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};

std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string prefix_of(int rank, int ranks, bool color) {
  static constexpr Color kColors[] = {Color::cyan, Color::green, Color::yellow, Color::magenta, Color::blue};
  const std::string text = fmt::format("[{:>{}}] ", rank, std::to_string(ranks - 1).size());
  return paint(text, kColors[rank % std::size(kColors)], color);
}

/// A rank's pipe, the lines it holds, and where they go.
struct RankStream {
  Fd source;
  int target;
  Lines lines;

  /// Passes on what is there; false once it has ended.
  bool pump() {
    char buffer[16 * 1024];
    for (;;) {
      const ssize_t got = ::read(source.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return true;
      if (got > 0) {
        write_all(target, lines.feed({buffer, static_cast<std::size_t>(got)}));
        continue;
      }
      write_all(target, lines.finish());
      source.reset();
      return false;
    }
  }
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options) : options_(options) {}

  Result<int> run() {
    block_signals();
    auto job = JobDescription::create(options_.ranks);
    if (!job) return tl::unexpected(job.error());
    if (auto started = start(*job); !started) {
      for (const RankProcess& rank : ranks_) rank.signal(SIGKILL);
      return tl::unexpected(started.error());
    }
    while (alive() > 0) wait_for_something();
    // A rank may have left something running that still holds its pipes: take what is there, wait for no more.
    for (RankStream& stream : streams_)
      if (stream.source && stream.pump()) write_all(stream.target, stream.lines.finish());
    if (ending_ || told_to_stop_) signal_groups_left(SIGKILL);
    return first_failure_.value_or(0);
  }

 private:
  void block_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : kForwarded) sigaddset(&set, number);
    sigaddset(&set, SIGTSTP);
    sigaddset(&set, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  Status start(const JobDescription& job) {
    const std::vector<int> cores = usable_cores();
    const bool interactive = ::isatty(STDIN_FILENO) == 1;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      SpawnOptions spawning;
      spawning.command = options_.command;
      spawning.pipes = options_.output != RankOutput::inherited;
      // A background process group may not read the terminal, and rank 0 shall be able to.
      spawning.own_group = !(rank == 0 && interactive);
      if (options_.bind && !cores.empty()) spawning.core = cores[static_cast<std::size_t>(rank) % cores.size()];
      auto process = spawn(job, rank, spawning);
      if (!process) return tl::unexpected(process.error());
      if (spawning.pipes) add_streams(*process);
      ranks_.push_back(std::move(*process));
    }
    return {};
  }

  void add_streams(RankProcess& process) {
    const auto add = [&](Fd source, int target) {
      ::fcntl(source.get(), F_SETFL, O_NONBLOCK);
      const bool prefixed = options_.output == RankOutput::prefixed;
      const bool color = wants_color(target);
      streams_.push_back(
          {std::move(source), target, Lines(prefixed ? prefix_of(process.rank, options_.ranks, color) : "")});
    };
    add(std::move(process.out), STDOUT_FILENO);
    add(std::move(process.err), STDERR_FILENO);
  }

  int alive() const {
    return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [](const auto& rank) { return !rank.ended; }));
  }

  void wait_for_something() {
    std::vector<pollfd> waits = {{signals_.get(), POLLIN, 0}};
    for (const RankStream& stream : streams_)
      waits.push_back({stream.source.get(), POLLIN, 0});  // -1 is skipped by poll
    ::poll(waits.data(), waits.size(), kill_at_.is_never() ? -1 : kill_at_.poll_milliseconds());
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (waits[i + 1].revents != 0) streams_[i].pump();
    handle_signals();
    reap();
    if (kill_at_.passed()) {
      say(fmt::format("{} still there after {:g} s; killing {}", alive() == 1 ? "one rank is" : "ranks are",
                      options_.grace, alive() == 1 ? "it" : "them"));
      signal_all(SIGKILL);
      kill_at_ = Deadline::never();
    }
  }

  void handle_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) continue;
      if (number == SIGTSTP) {
        signal_all(SIGSTOP);
        ::raise(SIGSTOP);
        signal_all(SIGCONT);
        continue;
      }
      forward(number, info.ssi_code == SI_KERNEL);
    }
  }

  // What the terminal sends reaches every process of our group by itself: only other groups need it from us.
  void forward(int number, bool from_terminal) {
    if (number == SIGINT || number == SIGTERM) {
      if (told_to_stop_) return signal_all(SIGKILL);  // told twice
      stop(number);
    }
    forwarded_.insert(number);
    for (const RankProcess& rank : ranks_)
      if (rank.own_group || !from_terminal) rank.signal(number);
    if (told_to_stop_ && number != SIGCONT) signal_all(SIGCONT);  // a stopped process hears nothing until it goes on
  }

  /// Says who wants the end. The ranks have `grace` to end by themselves.
  void stop(int number) {
    const int left = alive();
    told_to_stop_ = number;
    say(fmt::format("told to stop by SIG{}; ending {} rank{}{}", ::sigabbrev_np(number), left, left == 1 ? "" : "s",
                    number == SIGINT ? " (Ctrl-C again to kill)" : ""));
    if (kill_at_.is_never()) kill_at_ = Deadline::in(options_.grace);
  }

  void reap() {
    int wait_status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &wait_status, WNOHANG)) > 0;) {
      const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& each) { return each.pid == pid; });
      if (rank == ranks_.end()) continue;
      rank->ended = true;
      rank->wait_status = wait_status;
      on_end(*rank);
    }
  }

  void on_end(const RankProcess& rank) {
    // A rank that a signal ended after we were told to stop, ours or the kill after it, ended because of that.
    const bool by_us = told_to_stop_ && WIFSIGNALED(rank.wait_status);
    const int status = by_us ? 128 + *told_to_stop_ : exit_status_of(rank.wait_status);
    const bool first = status != 0 && !first_failure_;
    if (first) first_failure_ = status;
    const std::string what = fmt::format("rank {} (pid {}) {}", rank.rank, rank.pid, describe_end(rank.wait_status));
    if (options_.keep_going) return say(what);
    if (!first || told_to_stop_) return;
    // A signal that we passed on is no fault of the rank.
    if (alive() > 0 && WIFSIGNALED(rank.wait_status) && forwarded_.count(WTERMSIG(rank.wait_status)) != 0) {
      stop(WTERMSIG(rank.wait_status));
      first_failure_ = 128 + *told_to_stop_;
      return end_ranks();
    }
    say(alive() > 0 ? what + "; ending the others" : what);
    end_ranks();
  }

  void end_ranks() {
    if (alive() == 0 || std::exchange(ending_, true)) return;
    signal_all(SIGTERM);
    signal_all(SIGCONT);  // a stopped process hears SIGTERM only when it goes on
    kill_at_ = Deadline::in(options_.grace);
  }

  void signal_all(int number) {
    for (const RankProcess& rank : ranks_) rank.signal(number);
  }

  // What failed ranks started and left behind: their process groups outlive them.
  void signal_groups_left(int number) {
    for (const RankProcess& rank : ranks_)
      if (rank.own_group) ::kill(-rank.pid, number);
  }

  void say(const std::string& text) const {
    write_all(STDERR_FILENO,
              paint(fmt::format("{}: {}", options_.name, text), Color::red, wants_color(STDERR_FILENO)) + "\n");
  }

  const LaunchOptions& options_;
  Fd signals_;
  std::vector<RankProcess> ranks_;
  std::vector<RankStream> streams_;
  std::optional<int> first_failure_;
  Deadline kill_at_;
  std::optional<int> told_to_stop_;  // by this signal
  std::set<int> forwarded_;          // signals passed on to ranks
  bool ending_ = false;
};

}  // namespace

Result<int> launch(const LaunchOptions& options) { return Launcher(options).run(); }

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(wait_status), ::strsignal(WTERMSIG(wait_status)));
  return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
}

int exit_status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

bool started_by_launcher() {
  const auto info = from_environment();
  return info || info.error().code != ErrorCode::unsupported;
}

std::string own_executable() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "tutti";
}

int launch_self(const std::string& name, int ranks, const std::vector<std::string>& arguments) {
  LaunchOptions launching;
  launching.ranks = ranks > 0 ? ranks : std::max(2, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  launching.command = arguments;
  launching.command[0] = own_executable();
  launching.output = RankOutput::inherited;
  launching.name = name;
  const auto status = launch(launching);
  if (!status) fmt::print(stderr, "{}: {}\n", name, status.error().message);
  return status.value_or(1);
}

}  // namespace tutti::cli
