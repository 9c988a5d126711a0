// Telemetry: what is known of all ranks of a job, at one moment and over the window of time
// before it. Plain values, from whatever source: recordings of this host, a file, a generator. Everything that
// diagnose() judges by is in here, so that a moment can be written down and judged again (telemetry_json.hpp).
//
// Moments are seconds on one clock, the same for the whole value; 0: not known. Processes are named by their index in
// Telemetry::processes, -1 where nothing is known of them; ranks are numbers within a communicator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnosis/fault.hpp"
#include "program/program.hpp"
#include "tutti/types.hpp"

namespace tutti::diagnosis {

enum class ProcessState : std::uint8_t {
  running,
  stopped,      // by a signal, or a debugger
  killed,       // gone, without having left in order
  ended,        // it left in order
  unreachable,  // whoever reads its recording does not answer
  elsewhere,    // on a host that nobody was asked about; only its rank is known
};

/// A critical error of a GPU, by NVIDIA's number for it.
struct XidFacts {
  int code = 0;
  double at = 0;  // seen
};

/// A GPU that a process computes on. What is not known is 0.
struct GpuFacts {
  int index = 0;  // as nvidia-smi numbers the GPUs of its host
  std::string name;
  bool lost = false;                               // it does not answer any more
  double throttled = 0;                            // share of the looks in which it was slowed down
  std::string throttle;                            // why, as in "hardware thermal slowdown"
  int clock = 0, max_clock = 0;                    // of the SMs, MHz: the middle of the window, and what it could be
  int temperature = 0;                             // degrees Celsius
  std::vector<XidFacts> xids;                      // of the last ten minutes, in order
  std::uint64_t uncorrected = 0;                   // ECC errors since the driver was loaded
  bool rows_pending = false, rows_failed = false;  // bad memory waits for a reset to be replaced, cannot be replaced
  std::uint64_t link_errors = 0;                   // of its NVLinks, in the last minute
  int links_down = 0;                              // NVLinks that others of its host have and it has not
};

struct ProcessFacts {
  int rank = -1;  // in the communicator that its job began with
  int pid = 0;
  std::string host;
  ProcessState state = ProcessState::running;
  double since = 0;          // in this state
  double starved = 0;        // share of the window in which its threads were ready to run and had no core
  std::string how;           // it ended, as in "signal 9"
  bool told_to_end = false;  // by a signal, as when a job is cancelled
  std::vector<GpuFacts> gpus;
};

/// Whether a call has a later number than another one: they wrap, and those that are compared lie near each other.
inline bool is_later(std::uint32_t number, std::uint32_t other) {
  return static_cast<std::int32_t>(number - other) > 0;
}

/// What a rank called.
struct CallFacts {
  std::uint32_t number = 0;  // in call order: the same on all ranks
  Collective collective{};
  DataType type{};
  Operator op{};
  bool sends = false;  // point-to-point: which end
  std::uint64_t bytes = 0;
  int root = 0;  // point-to-point: the peer
  std::uint32_t signature = 0;
};

/// An operation that a rank is in, or that failed.
struct OperationFacts {
  CallFacts call;
  bool failed = false;
  double entered = 0;
  double moved = 0;  // when a counter of it was last seen to move
  int awaited = -1;  // the rank whose word it waits for
};

struct MemberFacts {
  enum class State : std::uint8_t { joined, broken, left };

  int rank = 0;
  int process = -1;
  State state = State::joined;
  int accused = -1;             // the rank that its error names
  std::int64_t last_done = -1;  // number of the last collective that it is through with
  double done_at = 0;           // when that was over
  std::vector<OperationFacts> operations;
};

/// Chunks from one rank to another on one path, as counted by its sender.
struct FlowFacts {
  int source = 0, destination = 0;  // ranks of the communicator
  int path = -1;
  std::uint32_t operation = 0;
  std::uint64_t posted = 0, sent = 0, done = 0;
};

/// How long a rank waited in operations until another had come, over the window.
struct WaitFacts {
  int waiter = 0, awaited = 0;
  double seconds = 0;
  double share = 0;  // of the time: the median over periods, so that a pause now and then does not count
};

/// How a communicator is used, learned from its last operations.
struct RhythmFacts {
  std::uint64_t operations = 0;  // so many are known
  int length = 0;                // operations of a period; 0: no period was found
  double period = 0, spread = 0;
  double longest_gap = 0;  // between the ends of two operations
};

/// How long a rank was in the operations of each stretch, of those that ranks leave together.
struct StayFacts {
  int rank = 0;
  std::vector<std::uint32_t> microseconds;
};

/// Operations of one signature: how long a rank is usually in one.
struct CallSiteFacts {
  std::uint32_t signature = 0;
  double usual = 0, spread = 0;
};

/// What a member of a communicator has called so far.
struct TrafficFacts {
  Collective collective{};
  std::uint64_t calls = 0, bytes = 0;
};

struct CommunicatorFacts {
  std::uint64_t id = 0;
  std::string name;
  int size = 0;
  std::vector<MemberFacts> members;  // those that are known, in order of rank
  std::vector<FlowFacts> flows;
  bool exchanges = false;  // members send and receive more than they call collectives: waits are those in all calls,
  bool learning = false;   // and are not known yet
  std::vector<WaitFacts> waits;
  RhythmFacts rhythm;
  std::vector<CallSiteFacts> sites;
  std::vector<TrafficFacts> traffic;  // of one of its members
  // Where members run on other hosts: what it takes to say who waits for whom, once the others are known, too
  // (merge/stretches.hpp). Stretch s is the operations from s * stretch_length on.
  int stretch_length = 0;                // operations; 0: no stretches are known
  std::uint64_t first_stretch = 0;       // the number of the first that is told
  std::vector<std::uint32_t> stretches;  // microseconds that each took; 0: not known
  std::vector<StayFacts> stays;          // of the ranks of this host, in order
};

/// A rank that has called the making of a communicator and waits in it.
struct WaitingRankFacts {
  int rank = 0;
  int process = -1;
};

/// Ranks that meet to make a communicator.
struct GatheringFacts {
  std::uint64_t key = 0;  // the same for all ranks
  std::string name;
  int size = 0;
  double began = 0;
  std::vector<int>
      joined;         // ranks that have reached the meeting point, in order; of those that are seen, if not `whole`
  bool whole = true;  // the process at whose address they meet is known
  std::vector<WaitingRankFacts> waiting;  // that are known
};

/// The pace on a path that delays are relative to.
struct PathFacts {
  int path = 0;
  double best_rate = 0;  // bytes per second
};

/// How long a byte took from one process to another on one path, relative to what is usual there.
struct DelayFacts {
  int source = 0, destination = 0;  // processes
  int path = 0;
  bool local = false;  // within a host
  double relative = 1;
  double error = 0;  // standard error of its logarithm, where more is known than how delays differ among each other
};

struct LaneFacts {
  enum class State : std::uint8_t { healthy, suspect, down };

  int process = -1, peer = -1;  // peer: -1 where only its name is known
  std::string peer_name, name;  // the addresses of both ends
  int path = 0;
  State state = State::healthy;
  double since = 0;
  int losses = 0;  // times it was lost in the window
  std::string reason;
  double rate = 0, usual = 0;  // bytes per second
  bool dropped = false;        // below its usual rate, for the reason that follows
  bool congested = false;      // on the path, not at either end
  bool corrupted = false;      // what came on it was, in the window: that is why it was lost
};

/// Chunks that arrived other than they were sent.
struct CorruptionFacts {
  int source = 0, destination = 0;  // processes
  int path = 0;
  std::uint64_t chunks = 0;
};

/// A fault of an earlier run, or of earlier in this one.
struct PastFault {
  FaultClass fault{};
  std::string host;
  int rank = -1;
  std::string place;    // the operation, as in "all_reduce #17"
  std::string command;  // of the job; empty: not known
};

/// Of one job.
struct Telemetry {
  std::uint64_t job = 0;
  std::string command;
  double now = 0;
  double realtime_offset = 0;  // seconds to add to a moment to have the time of day
  double window = 0;           // seconds; 0: a moment only
  std::vector<ProcessFacts> processes;
  std::vector<CommunicatorFacts> communicators;
  std::vector<GatheringFacts> gatherings;
  std::vector<PathFacts> paths;
  std::vector<DelayFacts> delays;
  std::vector<LaneFacts> lanes;
  std::vector<CorruptionFacts> corruptions;
  std::vector<PastFault> past;
};

}  // namespace tutti::diagnosis
