// Tells the collector what the jobs of this host do: looks at the recordings, and sends the telemetry of its jobs where
// anything has moved since, else only that nothing has. One look a second while all is well, four while the collector
// says that there is an incident. A look at which nothing moves reads states and counts, and no rings. Without a
// connection it does not look.
//
// Looks that took more CPU time than their share, one percent of a core, make later ones wait; the collector still
// hears each second that the agent is there. What it has sent, and the collector has not taken, is bounded. One thread;
// times are monotonic seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/pacing.hpp"
#include "agent/report/collector_link.hpp"
#include "diagnosis/gpu/gpu_observer.hpp"
#include "diagnosis/recordings/recording_observer.hpp"
#include "gpu_health/gpu_watch.hpp"
#include "monitor/clock_offset.hpp"
#include "monitor/read/snapshot.hpp"

namespace tutti::agent {

/// Who this agent is: the host's name, and a number that is the same when it starts again.
Hello hello_of_this_host(const std::vector<std::string>& folders);

/// Of everything that moves: counters, and states of processes, communicators and lanes. It is the same whatever
/// detail the snapshot has.
std::uint64_t fingerprint_of(const monitor::Snapshot& snapshot);
/// Of what is wrong with GPUs.
std::uint64_t fingerprint_of(const gpu::GpuLook& look);

/// A line without what no verdict rests on: lanes that are well, digits beyond microseconds.
std::string summary_of(diagnosis::Telemetry telemetry);

class HostReporter {
 public:
  /// `folders`: of recordings; none: as `tutti status` looks.
  HostReporter(std::vector<std::string> folders, HostPort collector, JobKey key);

  void work(double now);
  /// When work() has something to do, besides what the descriptor tells.
  double due() const;
  int descriptor() const { return link_.descriptor(); }
  short events() const { return link_.events(); }

  bool is_connected() const { return link_.is_connected(); }
  std::uint64_t looks() const { return looks_; }
  std::uint64_t summaries() const { return summaries_; }

 private:
  void begin_again();
  void look(double now);
  void send_summaries(const monitor::Snapshot& snapshot, const gpu::GpuLook& gpus, double now);
  void say_look(double looked_at);
  Status take(const Frame& frame);
  double pause() const;
  monitor::Snapshot snapshot(const monitor::Detail& detail) const;

  std::vector<std::string> folders_;
  std::string collector_;  // for messages
  CollectorLink link_;
  diagnosis::RecordingObserver observer_{diagnosis::RecordingObserver::Reach::job};
  gpu::GpuWatch gpus_;
  diagnosis::GpuObserver gpu_observer_;
  monitor::ClockOffset offset_;
  CpuBudget budget_{0.01, 0.05};
  RateLimitedLog log_{kLogInterval};
  std::vector<std::uint64_t> jobs_;    // that were there at the last look
  std::uint64_t connection_ = 0;       // the one on which all below was said
  std::uint64_t seen_ = 0, told_ = 0;  // fingerprints of the last look, and of what was sent
  bool is_quiet_ = false;              // nothing moved at the last look
  bool incident_ = false;
  double last_look_ = 0, next_look_ = 0, next_alive_ = 0;
  std::uint64_t looks_ = 0, summaries_ = 0, failures_ = 0, xids_ = 0;
};

}  // namespace tutti::agent
