// How long operations took and how fast they were, as NCCL Inspector tells it: means over those that ended since the
// last look, by communicator, operation, size and program. A look at which none had ended changes nothing; what is
// older than a minute is no longer told. One thread.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "agent/exposition.hpp"
#include "monitor/read/snapshot.hpp"

namespace tutti::agent {

class RecentOperations {
 public:
  /// A snapshot with its operations.
  void look(const monitor::Snapshot& snapshot);
  void write(Exposition& to) const;

 private:
  struct Mean {
    Labels labels;
    bool is_point_to_point = false;
    double at = 0;         // when it was looked at
    double seconds = 0;    // mean
    double bandwidth = 0;  // geometric mean, bytes per second; 0: nothing was moved
  };
  struct OperationSums;
  using Communicator = std::tuple<std::string, std::uint64_t, double>;  // recording, id, when it was created

  /// Returns the first operation not seen yet.
  std::uint64_t look_at(const monitor::ProcessView& process, const monitor::CommunicatorView& communicator, double now,
                        std::uint64_t next);
  void write_family(Exposition& to, bool is_point_to_point, bool is_time) const;

  std::map<Communicator, std::uint64_t> next_;  // operation not seen yet
  std::map<std::string, Mean> means_;           // by labels
};

}  // namespace tutti::agent
