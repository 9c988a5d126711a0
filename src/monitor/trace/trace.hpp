// Recordings as a trace: a process for each rank, with tracks for its operations, workers, lanes and events. Fed with
// snapshots one after another, it writes what is new in each; records that were overwritten in between are counted.
// Memory is bounded by what the recordings hold, whatever the length of the trace. One thread. Outside the run-time
// library.
//
// The axis is the monotonic clock of the job's first process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "monitor/read/snapshot.hpp"
#include "monitor/trace/trace_arrows.hpp"
#include "monitor/trace/trace_file.hpp"
#include "monitor/trace/trace_tracks.hpp"

namespace tutti::monitor {

struct TraceCounts {
  std::uint64_t operations = 0, steps = 0, chunks = 0, events = 0;
};

class Tracer {
 public:
  explicit Tracer(TraceFile& file) : file_(file), arrows_(file) {}

  /// Writes what is new.
  void add(const Snapshot& snapshot);
  /// Writes what is under way, up to the moment of the snapshot. Once, at the end.
  void finish(const Snapshot& snapshot);

  const TraceCounts& written() const { return written_; }
  const TraceCounts& missed() const { return missed_; }
  /// The largest share of a ring that was new in the last snapshot; 1: records may have been missed.
  double fill() const { return fill_; }
  int ranks() const { return ranks_; }
  /// Processes whose clock is not known to agree with the others', a name each.
  const std::vector<std::string>& unsure() const { return unsure_; }
  /// For the end of the file.
  TraceEvent about() const;

 private:
  /// A ring as far as it was read.
  struct Ring {
    std::optional<std::uint64_t> next;
  };
  struct CommunicatorTracks {
    std::uint32_t pid = 0;
    std::string prefix;  // of track names, where the process has several
    int order = 0;
    Ring operations, steps;
    std::map<std::string, TraceTrack> tracks;
  };
  struct LaneTrack {
    std::string name;
    Ring chunks;
    std::optional<TraceTrack> track;
    std::int64_t last_done = 0;
  };
  struct Process {
    std::uint32_t pid = 0;
    std::int64_t offset = 0;
    std::string place;  // "on HOST, process PID"
    bool clock_told = false;
    std::map<std::pair<std::uint64_t, int>, CommunicatorTracks> communicators;  // by id and rank
    std::map<std::uint32_t, LaneTrack> lanes;                                   // by slot
    Ring events;
    std::optional<TraceTrack> event_track;
  };

  Process& process_of(const ProcessView& view);
  CommunicatorTracks& communicator_of(Process& process, const CommunicatorView& view);
  TraceTrack& track_of(CommunicatorTracks& communicator, const std::string& name, int order);
  void name_rank(const Process& process, std::uint32_t pid, int rank);

  void add_operations(Process& process, const CommunicatorView& view);
  void add_operation(Process& process, CommunicatorTracks& communicator, const CommunicatorView& view,
                     const OperationView& operation);
  void add_steps(Process& process, const CommunicatorView& view);
  void add_chunks(Process& process, const LaneView& view);
  void add_events(Process& process, const ProcessView& view);
  void add_pending(Process& process, const ProcessView& owner, const CommunicatorView& view, const PendingView& pending,
                   double now);
  TraceTrack& operation_track(CommunicatorTracks& communicator, const OperationView& operation);

  void slice(const SlicePosition& place, const std::string& name, const char* category, TraceEvent arguments);
  std::int64_t at(const Process& process, double seconds) const;
  TimeSpan span(const Process& process, double from, double to) const { return {at(process, from), at(process, to)}; }

  /// Calls `each` with the records that are new, and counts those that were missed.
  template <typename View, typename Each>
  void read(Ring& ring, const std::vector<View>& views, std::uint64_t TraceCounts::*count, Each each);

  TraceFile& file_;
  Arrows arrows_;
  TraceNumbers numbers_;
  std::map<std::string, Process> processes_;  // by file
  TraceCounts written_, missed_;
  double fill_ = 0;
  int ranks_ = 0;
  std::vector<std::string> unsure_;
};

}  // namespace tutti::monitor
