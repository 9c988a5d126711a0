// Recordings as plain values: what all processes of this host that use tutti were doing at one moment, the living and
// those that were killed. Reading changes nothing for them. Outside the run-time library.
//
// Times are seconds on the host's monotonic clock; add `clock_offset` to have that of the job's first process, on which
// all ranks of a job can be drawn, and `realtime_offset` for the time of day.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "monitor/layout.hpp"
#include "program/program.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::monitor {

/// An operation, over or under way.
struct OperationView {
  std::uint64_t index = 0;   // of the record; counts up in each communicator
  std::uint32_t number = 0;  // in call order: the same on all ranks
  Collective collective{};
  DataType type{};
  Operator op{};
  bool sends = false;  // point-to-point: which end
  bool failed = false;
  std::uint64_t bytes = 0;
  int root = 0;  // point-to-point: the peer
  std::string program;
  std::uint32_t signature = 0;
  double entered = 0;
  double waited = 0;    // seconds: of the time since it was entered, in which it waited for other ranks
  int waited_for = -1;  // the rank of the longest of these waits; -1: there was none to speak of
  double done = 0;      // 0: not yet

  /// When others had been met, as if all waiting had come first; 0: it did not wait.
  double met() const { return waited > 0 ? entered + waited : 0; }
};

struct WorkerView {
  std::uint32_t tile = 0;
  std::uint32_t steps_done = 0;

  bool operator==(const WorkerView&) const = default;
};

struct PendingView {
  OperationView operation;
  std::vector<WorkerView> workers;
  int awaited = -1;  // the rank it has waited for so long that it sleeps
  int awaited_worker = -1;
  int awaited_step = -1;
  double awaited_since = 0;
};

struct StepView {
  std::uint64_t index = 0;
  std::uint32_t operation = 0;
  int worker = 0;
  int step = 0;
  std::uint32_t tile = 0;
  double begun = 0;
  double done = 0;
};

struct LinkView {
  int peer = 0;
  int channel = 0;
  bool receives = false;
  std::uint64_t posted = 0, sent = 0, acked = 0;  // where it receives: expected, received, done
  std::uint64_t bytes = 0;
  std::uint32_t operation = 0;
};

struct TotalView {
  Collective collective{};
  int size_class = 0;
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
  double waited = 0;
};

/// For how long a rank was waited for.
struct WaitedView {
  int rank = -1;  // -1: all those there was no room for
  double seconds = 0;
};

/// What the collectives that are left together have taken when one of a certain number was over.
struct MarkView {
  std::uint32_t number = 0;  // of that one: ranks make marks after the same
  double at = 0;
  double seconds = 0;  // in these collectives, since the communicator was made
  double waited = 0;   // of that, for other ranks
};

struct CommunicatorView {
  CommunicatorRecord::State state{};
  std::uint64_t id = 0;
  std::uint64_t job = 0;
  int rank = 0, size = 0, hosts = 0;
  int host = 0;  // index of this rank's host among these
  std::string name;
  std::string error;
  double created = 0;
  std::uint64_t entered = 0, done = 0, ends_entered = 0, ends_done = 0;
  std::uint32_t lost_links = 0;
  std::vector<PendingView> pending;
  std::vector<LinkView> links;
  std::vector<TotalView> totals;             // those that are not zero
  std::vector<WaitedView> waits;             // of operations over and under way, by the rank that was waited for
  std::vector<std::vector<MarkView>> marks;  // the last ones of each level, oldest first; see mark_interval()
  std::vector<OperationView> operations;     // the last ones, oldest first
  std::vector<StepView> steps;               // likewise
};

struct ChunkView {
  std::uint64_t index = 0;
  double posted = 0, done = 0;
  std::uint32_t bytes = 0;
  std::uint32_t operation = 0;
  double receiver_late = 0, starved = 0;
  double rate = 0;
};

struct LaneView {
  std::uint32_t slot = 0;  // in the recording
  std::string state;       // "healthy", ...
  std::uint32_t index = 0, epoch = 0;
  bool relayed = false;
  int peer = -1;
  std::string peer_name, name, reason;
  double since = 0;
  std::uint64_t posted_chunks = 0, posted_bytes = 0, done_chunks = 0, done_bytes = 0, quick_chunks = 0, quick_bytes = 0;
  double busy = 0, receiver_late = 0, starved = 0;
  double rate = 0, usual = 0;
  Condition condition{};
  Cause cause{};
  std::uint64_t drops = 0, stalls = 0;
  std::uint64_t checked_chunks = 0, corrupted_chunks = 0;  // that came here: compared with their checksum; of these bad
  std::uint64_t returned_chunks = 0;                       // that left here and came corrupted at the peer
  double corrupted_at = 0;                                 // when either happened last; 0: never
  std::vector<ChunkView> chunks;                           // the last ones, oldest first
};

struct EventView {
  std::uint64_t index = 0;
  double at = 0;
  double began = 0;
  EventKind kind{};
  Cause cause{};
  std::uint64_t communicator = 0;
  int rank = -1, peer = -1, lane = -1;
  std::uint32_t operation = 0;
  double values[3] = {};
  std::string text;
};

/// A communicator that a process is making.
struct GatheringView {
  std::uint64_t key = 0;  // the same on all ranks
  int rank = 0, size = 0;
  bool serves = false;  // the store is in this process: `joined` tells of all ranks
  double began = 0;
  std::vector<int> joined;  // in order
};

struct ProcessView {
  std::string file;
  int pid = 0;
  bool alive = false;
  bool stopped = false;  // by a signal, or a debugger
  bool ended = false;    // it left in order, or was told to
  int told_to_end = 0;   // by this signal; 0: by none
  std::string host, command, launcher_job;
  std::int64_t clock_offset = 0;             // ns
  std::optional<std::uint64_t> clock_error;  // ns
  std::uint32_t window = 0;
  std::uint32_t lost_communicators = 0, lost_lanes = 0;
  std::uint64_t event_count = 0;
  std::vector<GatheringView> gatherings;
  std::vector<CommunicatorView> communicators;
  std::vector<LaneView> lanes;
  std::vector<EventView> events;  // the last ones, oldest first
};

struct Snapshot {
  double now = 0;              // monotonic
  double realtime_offset = 0;  // seconds to add to a monotonic time to have the time of day
  std::vector<ProcessView> processes;
  std::vector<std::string> problems;  // files that could not be read, a sentence each
};

/// What to read beyond states and counts; rings cost most.
struct Detail {
  bool operations = false;
  bool steps = false;
  bool chunks = false;
  bool events = false;

  static Detail all() { return {true, true, true, true}; }
};

/// Folders in which recordings are looked for: TUTTI_MONITOR_DIR, else this user's; for root those of all users.
std::vector<std::string> recording_folders();
Snapshot take_snapshot(const std::vector<std::string>& folders, const Detail& detail);

/// Where a lane leads: "rank 3", as the job began, where that is known, else an address.
std::string peer_of(const LaneView& lane);

/// How much of what the lane carried came corrupted: "corrupted: 2 of 310 chunks that were checked".
std::string corruption_of(const LaneView& lane);

const char* name_of(EventKind kind);
const char* name_of(Cause cause);
const char* name_of(Condition condition);
const char* name_of(CommunicatorRecord::State state);

}  // namespace tutti::monitor
