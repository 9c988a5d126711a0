// Ranks as processes of this machine: what `tutti run` does, and what `tutti bench` and `tutti demo` do to themselves.
//
// launch() starts the ranks, forwards signals to them and waits for their ends. When a rank fails, the others are
// ended (SIGTERM, after `grace` SIGKILL) unless keep_going. When the launcher itself is told to stop (SIGINT, SIGTERM),
// it says so and passes the signal on; ranks that are still there after `grace`, or when it is told again, are killed.
// The job's secret and meeting point travel in the environment only. Ranks die with the launcher, whatever kills it.
// Call it from the main thread of a process that has no others (PR_SET_PDEATHSIG follows the thread that forks).
#pragma once

#include <string>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::cli {

enum class RankOutput {
  prefixed,   // lines, "[rank] " before each
  lines,      // lines, as they are
  inherited,  // the launcher's own descriptors
};

struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> command;
  RankOutput output = RankOutput::prefixed;
  bool keep_going = false;
  bool bind = false;               // rank i on the i-th core this process may use, in turn
  double grace = 5.0;              // seconds between SIGTERM and SIGKILL
  std::string name = "tutti run";  // who speaks in messages
};

/// The exit status: 0, or that of the first rank that failed (128 + signal where one killed it).
Result<int> launch(const LaunchOptions& options);

/// True where a launcher, ours or another, has started this process as a rank.
bool started_by_launcher();

/// "exited with status 3", "was killed by signal 9 (Killed)", for what waitpid said.
std::string describe_end(int wait_status);
/// The status a shell would show: 128 + signal where one killed it.
int exit_status_of(int wait_status);

/// This executable, for starting it again.
std::string own_executable();

/// Starts this command again as `ranks` ranks that share its output (0: one per core, at least two), and says what went
/// wrong in the name of `name`. The exit status.
int launch_self(const std::string& name, int ranks, const std::vector<std::string>& arguments);

}  // namespace tutti::cli
