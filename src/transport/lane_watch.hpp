// The monitors of a peer's lanes, and what is recorded of them: states, counts, windows, events. Each lane has a
// WatchedLane, which its owner keeps. Part of a LanePool, if there is something to record; guarded by the peer's mutex,
// but for is_busy().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "monitor/lane_monitor.hpp"
#include "monitor/recorder.hpp"
#include "transport/lane.hpp"
#include "transport/lane_slot.hpp"

namespace tutti {

struct LaneWatchOptions {
  int process = -1;  // the peer's number in the job
  monitor::LaneMonitorOptions monitor;
  monitor::Recorder* recorder = nullptr;              // none: nothing is written
  std::function<void(const monitor::Event&)> report;  // none: the recorder
};

/// What LaneWatch knows of a lane, for all its incarnations. Others only ask.
struct WatchedLane {
  std::uint32_t index = 0;
  monitor::LaneRecord* record = nullptr;
  Lane* lane = nullptr;                           // while it is up
  std::unique_ptr<monitor::LaneMonitor> monitor;  // likewise
  std::uint64_t outstanding = 0;                  // chunks
  int slower = 0;                                 // how often in a row it was found slower than the fastest
  bool uneven = false;                            // and that was reported
  double quiet_from = 0;                          // limits its events: see report()
};

class LaneWatch {
 public:
  LaneWatch(LaneWatchOptions options, std::string peer) : options_(std::move(options)), peer_(std::move(peer)) {}
  ~LaneWatch() { end(); }
  LaneWatch(const LaneWatch&) = delete;
  LaneWatch& operator=(const LaneWatch&) = delete;

  /// `each` stays where it is as long as the LaneWatch.
  void lane_up(WatchedLane& each, Lane& lane, bool relayed);
  void lane_down(WatchedLane& each, const std::string& why);
  /// Records what has become of a lane that was up once.
  void note(WatchedLane& each, const LaneSlot& slot) const;

  /// The peer is gone: frees the records for others.
  void end();

  void post(WatchedLane& each, const monitor::LaneMonitor::Posting& posting);
  void complete(WatchedLane& each, const monitor::LaneMonitor::Completion& done);
  /// Judges all that an acknowledgement completed.
  void judge(double now);
  void forget(WatchedLane& each);
  /// A chunk that came on the lane was compared with its checksum.
  static void count_checked(WatchedLane& each) {
    if (each.record != nullptr) each.record->checked_chunks.add(1);
  }
  /// What came corrupted: a frame at this end; a chunk at the other one; something for which that gave the lane up.
  enum class Corruption : std::uint8_t { frame_here, chunk_there, lane_there };
  void corrupted(WatchedLane& each, Corruption kind, double now, const std::string& what);

  /// Returns whether some chunk is awaited. Any thread.
  bool is_busy() const { return outstanding_.load(std::memory_order_relaxed) != 0; }
  /// Looks at lanes on which something is overdue; for whoever waits, as often as it likes.
  void check_overdue(double now);

 private:
  void open(WatchedLane& each);
  void report(WatchedLane& each, monitor::Event event);
  void settle(WatchedLane& each, std::uint64_t chunks);
  void compare(WatchedLane& own, double now);

  LaneWatchOptions options_;
  std::string peer_;
  std::vector<WatchedLane*> lanes_;            // that were up once, by index
  std::atomic<std::uint64_t> outstanding_{0};  // lanes with chunks outstanding
};

}  // namespace tutti
