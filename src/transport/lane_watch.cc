#include "transport/lane_watch.hpp"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

constexpr double kUneven = 1.5;              // times that the fastest lane is faster
constexpr double kEven = 1.25;               // likewise
constexpr std::uint64_t kCompareEvery = 64;  // completions
constexpr int kInARow = 4;                   // comparisons until it is reported
constexpr double kBusy = 0.1;                // seconds: a lane that did nothing for longer is not compared with
constexpr double kBetweenEvents = 0.1;       // seconds of a lane, on average
constexpr double kEventsAtOnce = 20;

}  // namespace

void LaneWatch::end() {
  for (WatchedLane* const each : lanes_) {
    settle(*each, each->outstanding);
    each->monitor.reset();
    each->lane = nullptr;
    if (options_.recorder != nullptr) options_.recorder->close_lane(std::exchange(each->record, nullptr));
  }
}

void LaneWatch::open(WatchedLane& each) {
  if (each.record != nullptr || options_.recorder == nullptr) return;
  each.record = options_.recorder->open_lane();
  if (each.record == nullptr) return;
  each.record->index.set(each.index);
  each.record->peer.set(options_.process);
  each.record->peer_name.set(peer_);
}

void LaneWatch::lane_up(WatchedLane& each, Lane& lane, bool relayed) {
  each.index = lane.index();
  const auto after =
      std::find_if(lanes_.begin(), lanes_.end(), [&](auto* other) { return other->index >= each.index; });
  if (after == lanes_.end() || *after != &each) lanes_.insert(after, &each);
  open(each);
  each.lane = &lane;
  const monitor::Map map = options_.recorder != nullptr ? options_.recorder->map() : monitor::Map();
  each.monitor = std::make_unique<monitor::LaneMonitor>(
      options_.monitor, map, each.record, [this, &each](const monitor::Event& event) { report(each, event); });
  if (each.record != nullptr) {
    each.record->epoch.set(lane.epoch());
    each.record->relayed.set(relayed ? 1 : 0);
    each.record->name.set(lane.name());
  }
  monitor::Event event;
  event.kind = monitor::EventKind::lane_up;
  report(each, event);
}

void LaneWatch::lane_down(WatchedLane& each, const std::string& why) {
  settle(each, each.outstanding);
  each.lane = nullptr;
  each.monitor.reset();
  each.slower = 0;
  each.uneven = false;
  if (each.record != nullptr) each.record->reason.set(why);
  monitor::Event event;
  event.kind = monitor::EventKind::lane_down;
  event.text = why;
  report(each, event);
}

void LaneWatch::note(WatchedLane& each, const LaneSlot& slot) const {
  if (each.record == nullptr) return;
  monitor::LaneRecord& record = *each.record;
  const std::uint32_t state = static_cast<std::uint32_t>(slot.state()) + 1;
  if (record.state.get() == state && record.since.get() != 0) return;
  record.since.set(static_cast<std::uint64_t>(slot.since() * options_.monitor.stamps_per_second));
  record.state.set(state);
}

void LaneWatch::post(WatchedLane& each, const monitor::LaneMonitor::Posting& posting) {
  if (each.outstanding++ == 0) outstanding_.fetch_add(1, std::memory_order_relaxed);
  each.monitor->post(posting);
}

void LaneWatch::complete(WatchedLane& each, const monitor::LaneMonitor::Completion& done) {
  if (each.outstanding == 0) return;
  each.monitor->complete(done);
  settle(each, 1);
  if (each.monitor->completions() % kCompareEvery == 0) compare(each, done.now);
}

void LaneWatch::judge(double now) {
  for (WatchedLane* const each : lanes_)
    if (each->monitor && each->monitor->has_unjudged()) {
      if (each->monitor->look_due() <= now) each->monitor->look(each->lane->look(), now, true);
      each->monitor->judge(now);
    }
}

void LaneWatch::forget(WatchedLane& each) {
  if (each.outstanding == 0) return;
  each.monitor->forget();
  settle(each, 1);
}

void LaneWatch::corrupted(WatchedLane& each, Corruption kind, double now, const std::string& what) {
  monitor::Event event;
  event.kind = monitor::EventKind::lane_corrupted;
  event.at = static_cast<std::uint64_t>(now * options_.monitor.stamps_per_second);
  event.text = what;
  if (each.record != nullptr) {
    monitor::LaneRecord& record = *each.record;
    if (kind == Corruption::frame_here) record.corrupted_chunks.add(1);
    if (kind == Corruption::chunk_there) record.returned_chunks.add(1);
    record.corrupted_at.set(event.at);
    event.values[0] = static_cast<double>(record.corrupted_chunks.get());
    event.values[1] = static_cast<double>(record.returned_chunks.get());
  }
  report(each, event);
}

void LaneWatch::settle(WatchedLane& each, std::uint64_t chunks) {
  if (chunks == 0) return;
  each.outstanding -= chunks;
  if (each.outstanding == 0) outstanding_.fetch_sub(1, std::memory_order_relaxed);
}

void LaneWatch::check_overdue(double now) {
  for (WatchedLane* const each : lanes_)
    if (each->outstanding != 0 && each->monitor->look_due() <= now) each->monitor->look(each->lane->look(), now, false);
}

// Reports once, until the lanes are even again.
void LaneWatch::compare(WatchedLane& own, double now) {
  double fastest = 0;
  for (const WatchedLane* each : lanes_)
    if (each->monitor && now - each->monitor->last_done() < kBusy) fastest = std::max(fastest, each->monitor->rate());
  const double rate = own.monitor->rate();
  if (rate * kEven >= fastest) {
    own.slower = 0;
    own.uneven = false;
  }
  own.slower = rate * kUneven < fastest ? own.slower + 1 : 0;
  if (own.slower < kInARow || own.uneven) return;
  own.uneven = true;
  monitor::Event event;
  event.kind = monitor::EventKind::lanes_uneven;
  event.at = static_cast<std::uint64_t>(now * options_.monitor.stamps_per_second);
  event.values[0] = rate;
  event.values[1] = fastest;
  report(own, event);
}

// A lane that changes all the time must not drive everything else out of the ring of events.
void LaneWatch::report(WatchedLane& each, monitor::Event event) {
  if (event.at != 0) {
    const double at = static_cast<double>(event.at) / options_.monitor.stamps_per_second;
    if (each.quiet_from - at > kEventsAtOnce * kBetweenEvents) return;
    each.quiet_from = std::max(each.quiet_from, at) + kBetweenEvents;
  }
  event.lane = static_cast<int>(each.index);
  event.peer = options_.process;
  if (options_.report) return options_.report(event);
  if (options_.recorder != nullptr) options_.recorder->record(event);
}

}  // namespace tutti
