// Ranks as child processes of a test, which reads what they say and may kill them. Kills what is left at the end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.hpp"

namespace tutti::integration {

using Clock = std::chrono::steady_clock;
using Variables = std::map<std::string, std::string>;

class RankProcesses {
 public:
  /// `expected` ranks, of which start() is to be called for each that shall join.
  RankProcesses(int expected, Variables variables);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void start(int rank, const std::vector<std::string>& command, const Variables& own = {});
  pid_t pid(int rank) const { return ranks_[static_cast<std::size_t>(rank)].pid; }
  void kill(int rank, int signal = 9);
  /// Writes a line to the rank's standard input.
  void tell(int rank, const std::string& line);

  /// The next line the rank says that begins with `word`; earlier ones are passed over. Nothing at the deadline, or
  /// once the rank has closed its output.
  std::optional<std::string> hear(int rank, const std::string& word, Clock::time_point deadline);
  /// All the rank has said so far: standard output and standard error.
  const std::string& said(int rank) const { return ranks_[static_cast<std::size_t>(rank)].said; }
  /// The wait status, once the rank has ended.
  std::optional<int> wait(int rank, Clock::time_point deadline);

 private:
  struct Rank {
    pid_t pid = -1;
    Fd input;
    Fd output;
    std::string said;
    std::size_t heard = 0;
    std::optional<int> status;
  };
  bool listen(Rank& rank, Clock::time_point deadline);

  Variables variables_;
  std::vector<Rank> ranks_;
};

Clock::time_point in(double seconds);
double seconds_since(Clock::time_point then);

/// The TCP ports on which a process listens, from /proc.
std::vector<int> listening_ports(pid_t pid);

}  // namespace tutti::integration
