// A snapshot of this host as metrics for Prometheus: docs/monitor-agent.md lists them. Names and labels are those of
// NCCL Inspector where they mean the same, all others begin with tutti_.
//
// Counters never go back while a process lives. A communicator that was closed is no longer told; its totals end with
// it. The number of samples is bounded by the shape of the recordings, links being summed up over channels. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/exposition.hpp"
#include "agent/recent.hpp"
#include "monitor/read/snapshot.hpp"

namespace tutti::agent {

/// What the agent knows of itself.
struct AgentCounts {
  std::uint64_t scrapes = 0;
  std::uint64_t refused = 0;        // scrapes without the token
  double snapshot_seconds = 0;      // that the last one took
  double cpu_seconds = 0;           // of this process so far
  std::uint64_t events_missed = 0;  // overwritten before they were read
  std::uint64_t file_dropped = 0;   // events that found no room while the file could not be written
  std::uint64_t forward_dropped = 0;
  std::uint64_t write_failures = 0;  // of the events' file and the textfile
  bool forward_connected = false;
  bool collector_connected = false;
  std::uint64_t processes_killed = 0;  // seen to die without leaving in order
  /// Events that went through, by kind and cause.
  std::array<std::array<std::uint64_t, 4>, monitor::kEventKinds> events{};
};

class Metrics {
 public:
  /// `snapshot` with its operations.
  std::string text(const monitor::Snapshot& snapshot, const AgentCounts& counts);

 private:
  using Lanes = std::vector<std::pair<Labels, const monitor::LaneView*>>;

  /// Seconds come from ticks whose rate is measured anew each time: what seems to go back by a thousandth stays.
  double never_less(const std::string& key, double value);
  void write_processes(const monitor::Snapshot& snapshot);
  void write_communicators(const monitor::Snapshot& snapshot);
  void write_waits(const monitor::Snapshot& snapshot);
  void write_culprits(const monitor::Snapshot& snapshot);
  void write_totals(const monitor::Snapshot& snapshot);
  void write_links(const monitor::Snapshot& snapshot);
  void write_lanes(const monitor::Snapshot& snapshot);
  void write_lane_states(const Lanes& lanes);
  void write_events(const AgentCounts& counts);
  void write_agent(const monitor::Snapshot& snapshot, const AgentCounts& counts);

  Exposition out_;
  RecentOperations recent_;
  std::unordered_map<std::string, double> before_, now_;  // counters of seconds: at the last look, and at this
};

}  // namespace tutti::agent
