// The monitors of a peer's lanes, and what is recorded of them: states, counts, windows, events. Part of a Peer, where
// there is something to record; guarded by its mutex, but for is_busy().
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

class LaneWatch {
 public:
  LaneWatch(LaneWatchOptions options, std::string peer) : options_(std::move(options)), peer_(std::move(peer)) {}
  ~LaneWatch() { end(); }
  LaneWatch(const LaneWatch&) = delete;
  LaneWatch& operator=(const LaneWatch&) = delete;

  void lane_up(Lane& lane, bool relayed);
  void lane_down(const Lane& lane, const std::string& why);
  /// What has become of a lane that was up once.
  void note(std::uint32_t index, const LaneSlot& slot);

  /// The peer is gone: the records are free for others.
  void end();

  using Posting = monitor::LaneMonitor::Posting;
  using Completion = monitor::LaneMonitor::Completion;
  void post(const Lane& lane, const Posting& posting);
  void complete(std::uint32_t index, const Completion& done);
  /// All that an acknowledgement completed has been told.
  void judge(double now);
  void count_quick(const Lane& lane, std::uint32_t bytes);
  void forget(std::uint32_t index);

  /// Some chunk is awaited. Any thread.
  bool is_busy() const { return outstanding_.load(std::memory_order_relaxed) != 0; }
  /// Looks where something is overdue; for whoever waits, as often as it likes.
  void check_overdue(double now);

  /// Null: not up.
  const monitor::LaneMonitor* monitor(std::uint32_t index) const {
    return index < lanes_.size() ? lanes_[index].monitor.get() : nullptr;
  }

 private:
  struct Watched {
    monitor::LaneRecord* record = nullptr;
    Lane* lane = nullptr;  // while it is up
    std::unique_ptr<monitor::LaneMonitor> monitor;
    std::uint64_t outstanding = 0;
    int slower = 0;         // how often in a row it was found slower than the fastest
    bool uneven = false;    // and that was told
    double quiet_from = 0;  // events told of late: see report()
  };

  Watched& watched(std::uint32_t index);
  void open(Watched& each, std::uint32_t index);
  void report(std::uint32_t index, monitor::Event event);
  void settle(Watched& each, std::uint64_t chunks);
  void compare(std::uint32_t index, double now);

  LaneWatchOptions options_;
  std::string peer_;
  std::vector<Watched> lanes_;  // by index
  std::atomic<std::uint64_t> outstanding_{0};
};

}  // namespace tutti
