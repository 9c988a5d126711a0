// One rank as a child process, and the job all ranks share. See launch.hpp for who calls this and from where.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti::cli {

/// What all ranks of a job are told.
struct JobDescription {
  int ranks = 1;
  std::string address;  // 127.0.0.1:port, where rank 0 will listen
  std::string secret;   // empty: the environment already holds one
  Fd reservation;       // keeps the port from others until rank 0 binds it: bound, never listening

  static Result<JobDescription> create(int ranks);
};

struct SpawnOptions {
  std::vector<std::string> command;
  bool pipes = true;      // read its output; else it shares ours
  bool own_group = true;  // a process group of its own, so that signals reach what it starts
  int core = -1;          // pin it there; -1: anywhere
  std::vector<std::pair<std::string, std::string>> environment;  // besides what all ranks are told, or instead
};

struct RankProcess {
  int rank = 0;
  pid_t pid = -1;
  bool own_group = true;
  Fd out;  // what it writes, where pipes were asked for
  Fd err;
  int wait_status = 0;
  bool ended = false;

  /// To the rank and, where it has its own group, to what it started.
  void signal(int number) const;
};

/// Starts one rank; fails where the program cannot be run, naming it.
Result<RankProcess> spawn(const JobDescription& job, int rank, const SpawnOptions& options);

}  // namespace tutti::cli
