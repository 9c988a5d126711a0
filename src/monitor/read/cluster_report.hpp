// What a person wants to know of a snapshot: jobs, their communicators and ranks; what is pending and who waits for
// whom; which ranks hold the others up; what is broken. Plain values, worked out from a Snapshot alone; any thread.
//
// Ranks are compared by the numbers of their operations and by how long they were in them, never by their clocks.
// Of ranks on other hosts there is no recording here: they are `not_seen`, and may still be named as awaited.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "monitor/read/snapshot.hpp"

namespace tutti::monitor {

/// Ranks first..last.
struct RankRange {
  int first = 0;
  int last = 0;
};

struct RankReport {
  int rank = 0;
  std::size_t process = 0;  // index in ClusterReport::processes
  int pid = 0;
  bool alive = false;
  bool stopped = false;  // by a signal, or a debugger
  bool ended = false;    // its process left in order, or was told to
  int told_to_end = 0;   // by this signal; 0: by none
  CommunicatorRecord::State state{};
  std::string error;
  std::uint64_t entered = 0, done = 0, ends_entered = 0, ends_done = 0;
  std::uint64_t operations = 0, bytes = 0;  // over, of every kind
  double seconds = 0, waited = 0;           // in these; of that, in which they waited for other ranks
  std::vector<WaitedView> waited_for;       // the same by rank, and of what is pending
  std::vector<PendingView> pending;
  std::optional<std::uint32_t> last_entered;  // number of the last collective it entered, as far as that is recorded
  std::optional<OperationView> last_done;     // the last collective
  std::vector<OperationView> recent;          // oldest first
  std::vector<std::vector<MarkView>> marks;   // as in the CommunicatorView
  std::vector<LinkView> links;
};

/// A rank that sleeps because of another.
struct Wait {
  int waiter = 0;
  int awaited = 0;
  OperationView operation;
  int worker = -1, step = -1;
  double seconds = 0;
};

/// A rank that others wait for and that waits for nobody: the end of their chains.
struct Blocker {
  enum class Why { not_entered, killed, not_seen, at_work, circle };

  int rank = 0;
  Why why{};
  std::vector<int> waiters;  // directly or through others
  double seconds = 0;        // the longest of these waits
  std::uint32_t operation = 0;
  std::string text;  // what it does instead
};

/// A rank that costs the others time again and again: they wait for it in collectives that are left together.
struct Straggler {
  enum class Habit {
    late,  // it enters after the others
    slow,  // it enters with them, and they wait for it within: it stands still now and then, or the way to it is slow
  };

  int rank = 0;
  Habit why{};
  double lost = 0;  // seconds by which it spent less in these collectives (slow: waited less) than the others' median
  double seconds = 0;  // of so many
  /// Of the last operations that all recorded ranks remember: in how many it came last, and by how much on average.
  int times = 0, of = 0;
  double late = 0;
  double remembered = 0;  // seconds from the first of these to the last

  double share() const { return lost / seconds; }
};

/// Ranks that called something else under the same number.
struct Mismatch {
  std::uint32_t number = 0;
  std::vector<int> ranks;  // the fewer
  std::string text;
};

struct CommunicatorReport {
  std::uint64_t id = 0;
  std::string name;
  int size = 0, hosts = 0;
  CommunicatorRecord::State state{};  // broken if it is for any rank, else alive if it is for any
  std::vector<RankReport> ranks;      // those recorded here, in order
  std::vector<RankRange> not_seen;
  std::vector<Wait> waits;
  std::vector<Blocker> blockers;
  std::vector<Straggler> stragglers;
  std::vector<Mismatch> mismatches;
};

struct LaneReport {
  LaneView lane;
  double share = 0;  // of the bytes to this peer
};

struct ProcessReport {
  std::string file, host, command, launcher_job;
  int pid = 0;
  bool alive = false, ended = false;
  std::uint32_t lost_communicators = 0, lost_lanes = 0;
  std::optional<int> rank;  // in the communicator that the job began with
  std::vector<LaneReport> lanes;
};

struct JobReport {
  std::uint64_t id = 0;  // 0: processes without a communicator
  std::string launcher_job, command;
  std::vector<CommunicatorReport> communicators;
  std::vector<std::size_t> processes;  // indices in ClusterReport::processes
};

/// Something a person should know, as a sentence.
struct Finding {
  bool wrong = false;  // else: worth knowing
  std::string text;
};

struct ClusterReport {
  double now = 0;
  std::vector<ProcessReport> processes;
  std::vector<JobReport> jobs;
  std::vector<Finding> findings;  // wrong ones first
  std::vector<std::string> problems;

  bool is_wrong() const;
};

struct ReportOptions {
  double late = 10;          // seconds of waiting after which a rank is late
  bool with_closed = false;  // also communicators that are closed
};

/// Works the report out. `snapshot`: with its operations.
ClusterReport analyze(const Snapshot& snapshot, const ReportOptions& options = {});

const char* name_of(Blocker::Why why);
const char* name_of(Straggler::Habit why);

/// The first half of an id, enough for a person.
std::string short_name(std::uint64_t id);
/// "all_reduce #17", "send #3 to 2"
std::string title_of(const OperationView& operation);
/// "worker 0 step 3, worker 1 step 5", at most three of them.
std::string steps_of(const PendingView& pending);
/// "0-2, 5"
std::string text_of(const std::vector<RankRange>& ranges);
/// "rank 2", "ranks 0-2, 5". `ranks`: in order.
std::string text_of(const std::vector<int>& ranks);
/// "has ended", "was ended by SIGTERM", "was killed": of one that is not alive.
std::string end_of(const RankReport& rank);
/// "3.2 s", "410 ms", "12 us"
std::string duration_text(double seconds);
/// "1.5 MB"; powers of 1,000.
std::string bytes_text(double bytes);

}  // namespace tutti::monitor
