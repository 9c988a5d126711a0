// What one lane does, from a report of every chunk: throughput over a sliding window, what is usual, and when, by how
// much and why it is less.
//
// A chunk takes from its posting, or from the completion before it if that is later, to its completion: the time for
// which the lane had nothing else to do. So a lane without work is never slow; nor is one with several chunks under
// way, for which the time from first post to last completion (as ICCL has it) counts the pipeline's depth once more in
// every window. A chunk posted to an idle lane is acknowledged only after the time there and back (the lead); what that
// usually takes is learned, and counts as time in which the lane was idle.
//
// A drop is fewer bytes per second than usual *within operations*: the time of chunks, plus the time that the lane was
// idle in the midst of an operation, because the receiver gave no credit (it is late) or nothing was offered (the
// sender is starved). Time between operations is not attributed. If chunks themselves take longer, how far their bytes
// had come (path_view.hpp) shows whether the path or the receiver held them up.
//
// Its parts: RateWindow has the throughput, BlameEvidence finds where chunks lose time, DropDetector knows what is
// usual and finds drops. This class turns postings and completions into samples for them, notices stalls while they
// last, and writes the lane's record and events. O(1) per chunk, no allocation but at the first. One thread at a time:
// whoever holds the peer's mutex. Times are seconds on its clock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "monitor/blame_evidence.hpp"
#include "monitor/drop_detector.hpp"
#include "monitor/lane_sample.hpp"
#include "monitor/layout.hpp"
#include "monitor/path_view.hpp"
#include "monitor/rate_window.hpp"
#include "monitor/recorder.hpp"
#include "monitor/usual_cost.hpp"

namespace tutti::monitor {

struct LaneMonitorOptions {
  int window = 8;                  // completions; at most 128
  double stamps_per_second = 1e9;  // of the times in records and events
  /// Seconds without a completion until a lane stalls, at least: a kernel may hold an acknowledgement back for 40 ms,
  /// and before it came there is no telling the path from the receiver.
  double stall = 0.06;
  double gap = 0.01;       // seconds between two completions that are a drop, at least
  double new_usual = 5.0;  // seconds after which a drop is what is usual
};

class LaneMonitor {
 public:
  using Report = std::function<void(const Event&)>;

  /// The record, which may be null, lies in the map.
  LaneMonitor(const LaneMonitorOptions& options, const Map& map, LaneRecord* record, Report report);

  struct Posting {
    double now = 0;
    std::uint32_t bytes = 0;
    std::uint64_t handed_over = 0;  // bytes that the lane had before
  };
  void post(const Posting& posting);
  struct Completion {
    double posted = 0;
    double now = 0;
    std::uint32_t bytes = 0;
    std::uint64_t operation = 0;  // its number in the low half
    double refused = 0;           // seconds in which there was no credit for chunks to this peer, until it was posted
  };
  void complete(const Completion& done);
  /// Judges what complete() reported: chunks that are done at the same time are judged together.
  void judge(double now);
  bool has_unjudged() const { return open_.chunks != 0; }
  /// Counts a chunk that is not timed.
  void count_quick(std::uint32_t bytes);
  /// Drops a chunk that was posted: nobody waits for it any more.
  void forget();

  /// Returns when look() is due; never while nothing is outstanding.
  double look_due() const;
  /// `completing`: an acknowledgement was just read, and judge() follows. Else it notices stalls.
  void look(const PathView& view, double now, bool completing);

  /// Return the rate of the window and the usual one: bytes per second, 0 if not known.
  double rate() const { return rate_.rate(); }
  double usual() const { return detector_.usual_rate(); }
  Condition condition() const { return condition_; }
  std::uint64_t completions() const { return rate_.count(); }
  double last_done() const { return last_done_; }

 private:
  double cost() const { return detector_.usual().cost().busy; }
  double lead() const { return lead_.seconds(cost()); }
  /// Returns the seconds that a chunk like the last usually takes.
  double expected() const { return chunk_bytes_ * cost(); }
  double busy_from() const;
  double stall_limit(double least) const;
  void notice_stall(double now);
  LaneSample sample_of(const Completion& done);
  void write(const Completion& done, const LaneSample& sample);
  void begin_drop(const Drop& drop);
  void set_condition(Condition condition, Cause cause);
  std::uint64_t stamp(double seconds) const { return static_cast<std::uint64_t>(seconds * options_.stamps_per_second); }
  /// `amount`: the rate of a drop, or the bytes that wait in a stall.
  void report(EventKind kind, const Drop& drop, double amount);

  LaneMonitorOptions options_;
  Map map_;
  LaneRecord* record_;
  LaneRecord unseen_;  // instead of a record
  Report report_;

  std::uint64_t outstanding_ = 0;  // chunks
  double busy_since_ = 0;
  double chunk_bytes_ = 0;  // of the chunk posted last
  double last_done_ = 0;
  std::uint64_t operation_ = ~std::uint64_t{0};  // of the last completion
  double refused_ = 0;                           // likewise
  LaneSample open_;                              // what was done last, until judge()

  RateWindow rate_;
  UsualLead lead_;
  BlameEvidence evidence_;
  DropDetector detector_;
  Condition condition_ = Condition::normal;
  bool stall_reported_ = false;
};

}  // namespace tutti::monitor
