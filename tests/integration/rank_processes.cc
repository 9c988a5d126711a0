#include "rank_processes.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "net/free_port_test_kit.hpp"

namespace tutti::integration {
namespace {

struct PipeEnds {
  Fd reads;
  Fd writes;

  PipeEnds() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    reads = Fd(ends[0]);
    writes = Fd(ends[1]);
  }
};

std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each)
    if (std::string_view(*each).substr(0, 6) != "TUTTI_") all.emplace_back(*each);
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.substr(0, 8) == "socket:[") inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

}  // namespace

Clock::time_point in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

RankProcesses::RankProcesses(int expected, Variables variables)
    : variables_(std::move(variables)), ranks_(static_cast<std::size_t>(expected)) {
  variables_["TUTTI_SIZE"] = std::to_string(expected);
  variables_["TUTTI_ADDRESS"] = fmt::format("127.0.0.1:{}", free_port());
  variables_["TUTTI_SECRET"] = "known to the ranks of this test only";
}

RankProcesses::~RankProcesses() {
  for (Rank& rank : ranks_)
    if (rank.pid > 0 && !rank.status) {
      ::kill(rank.pid, SIGKILL);
      ::waitpid(rank.pid, nullptr, 0);
    }
}

void RankProcesses::start(int rank, const std::vector<std::string>& command, const Variables& own) {
  Variables variables = variables_;
  variables["TUTTI_RANK"] = std::to_string(rank);
  for (const auto& [name, value] : own) variables[name] = value;
  std::vector<std::string> environment = environment_with(variables);
  std::vector<std::string> arguments = command;
  const std::vector<char*> environment_pointers = pointers(environment);
  const std::vector<char*> argument_pointers = pointers(arguments);
  PipeEnds input;
  PipeEnds output;
  // Not fork(): the library closes its descriptors in children made by that.
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input.reads.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output.writes.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output.writes.get(), STDERR_FILENO);
  pid_t pid = -1;
  if (::posix_spawn(&pid, argument_pointers[0], &actions, nullptr, argument_pointers.data(),
                    environment_pointers.data()) != 0)
    std::abort();
  ::posix_spawn_file_actions_destroy(&actions);
  Rank& started = ranks_[static_cast<std::size_t>(rank)];
  started.pid = pid;
  started.input = std::move(input.writes);
  started.output = std::move(output.reads);
  ::fcntl(started.output.get(), F_SETFL, O_NONBLOCK);
}

void RankProcesses::kill(int rank, int signal) { ::kill(pid(rank), signal); }

void RankProcesses::tell(int rank, const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t written =
      ::write(ranks_[static_cast<std::size_t>(rank)].input.get(), text.data(), text.size());
}

/// Takes in what the rank says next; false at the deadline or the end.
bool RankProcesses::listen(Rank& rank, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd output{rank.output.get(), POLLIN, 0};
  if (::poll(&output, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) <= 0) return false;
  char text[4096];
  const ssize_t bytes = ::read(rank.output.get(), text, sizeof text);
  if (bytes <= 0) return false;
  rank.said.append(text, static_cast<std::size_t>(bytes));
  return true;
}

std::optional<std::string> RankProcesses::hear(int rank, const std::string& word, Clock::time_point deadline) {
  Rank& speaker = ranks_[static_cast<std::size_t>(rank)];
  while (true) {
    for (std::size_t end; (end = speaker.said.find('\n', speaker.heard)) != std::string::npos;) {
      const std::string line = speaker.said.substr(speaker.heard, end - speaker.heard);
      speaker.heard = end + 1;
      if (line.substr(0, word.size()) == word) return line;
    }
    if (!listen(speaker, deadline)) return std::nullopt;
  }
}

std::optional<int> RankProcesses::wait(int rank, Clock::time_point deadline) {
  Rank& waited = ranks_[static_cast<std::size_t>(rank)];
  while (!waited.status) {
    int status = 0;
    if (::waitpid(waited.pid, &status, WNOHANG) == waited.pid)
      waited.status = status;
    else if (Clock::now() > deadline)
      return std::nullopt;
    else
      listen(waited, std::min(deadline, in(0.01)));
  }
  while (listen(waited, Clock::now())) {
  }
  return waited.status;
}

std::vector<int> listening_ports(pid_t pid) {
  const std::set<std::string> sockets = sockets_of(pid);
  std::vector<int> ports;
  for (const char* const table : {"tcp", "tcp6"}) {
    std::ifstream file(fmt::format("/proc/{}/net/{}", pid, table));
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
      std::istringstream fields(line);
      std::string slot, local, remote, state, skipped, inode;
      fields >> slot >> local >> remote >> state >> skipped >> skipped >> skipped >> skipped >> skipped >> inode;
      constexpr const char* kListen = "0A";
      if (state == kListen && sockets.count(inode) != 0)
        ports.push_back(std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

}  // namespace tutti::integration
