#include "transport/lane_watch.hpp"

#include <algorithm>

namespace tutti {
namespace {

constexpr double kUneven = 1.5;              // times that the fastest lane is faster
constexpr double kEven = 1.25;               // likewise
constexpr std::uint64_t kCompareEvery = 64;  // completions
constexpr int kInARow = 4;                   // comparisons until it is told
constexpr double kBusy = 0.1;                // seconds: a lane that did nothing for longer is not compared with
constexpr double kBetweenEvents = 0.1;       // seconds of a lane, on average
constexpr double kEventsAtOnce = 20;

}  // namespace

void LaneWatch::end() {
  for (Watched& each : lanes_) {
    settle(each, each.outstanding);
    each.monitor.reset();
    each.lane = nullptr;
    if (options_.recorder != nullptr) options_.recorder->close_lane(std::exchange(each.record, nullptr));
  }
}

LaneWatch::Watched& LaneWatch::watched(std::uint32_t index) {
  if (lanes_.size() <= index) lanes_.resize(index + 1);
  return lanes_[index];
}

void LaneWatch::open(Watched& each, std::uint32_t index) {
  if (each.record != nullptr || options_.recorder == nullptr) return;
  each.record = options_.recorder->open_lane();
  if (each.record == nullptr) return;
  each.record->index.set(index);
  each.record->peer.set(options_.process);
  each.record->peer_name.set(peer_);
}

void LaneWatch::lane_up(Lane& lane, bool relayed) {
  Watched& each = watched(lane.index());
  open(each, lane.index());
  each.lane = &lane;
  const monitor::Map map = options_.recorder != nullptr ? options_.recorder->map() : monitor::Map();
  each.monitor = std::make_unique<monitor::LaneMonitor>(
      options_.monitor, map, each.record,
      [this, index = lane.index()](const monitor::Event& event) { report(index, event); });
  if (each.record != nullptr) {
    each.record->epoch.set(lane.epoch());
    each.record->relayed.set(relayed ? 1 : 0);
    each.record->name.set(lane.name());
  }
  monitor::Event event;
  event.kind = monitor::EventKind::lane_up;
  report(lane.index(), event);
}

void LaneWatch::lane_down(const Lane& lane, const std::string& why) {
  Watched& each = watched(lane.index());
  if (each.lane != &lane) return;
  settle(each, each.outstanding);
  each.lane = nullptr;
  each.monitor.reset();
  each.slower = 0;
  each.uneven = false;
  if (each.record != nullptr) each.record->reason.set(why);
  monitor::Event event;
  event.kind = monitor::EventKind::lane_down;
  event.text = why;
  report(lane.index(), event);
}

void LaneWatch::note(std::uint32_t index, const LaneSlot& slot) {
  if (index >= lanes_.size() || lanes_[index].record == nullptr) return;
  monitor::LaneRecord& record = *lanes_[index].record;
  const std::uint32_t state = static_cast<std::uint32_t>(slot.state()) + 1;
  if (record.state.get() == state && record.since.get() != 0) return;
  record.since.set(static_cast<std::uint64_t>(slot.since() * options_.monitor.stamps_per_second));
  record.state.set(state);
}

void LaneWatch::post(const Lane& lane, const Posting& posting) {
  Watched& each = watched(lane.index());
  if (!each.monitor) return;
  if (each.outstanding++ == 0) outstanding_.fetch_add(1, std::memory_order_relaxed);
  each.monitor->post(posting);
}

void LaneWatch::complete(std::uint32_t index, const Completion& done) {
  Watched& each = watched(index);
  if (!each.monitor || each.outstanding == 0) return;
  each.monitor->complete(done);
  settle(each, 1);
  if (each.monitor->completions() % kCompareEvery == 0) compare(index, done.now);
}

void LaneWatch::judge(double now) {
  for (Watched& each : lanes_)
    if (each.monitor && each.monitor->has_unjudged()) {
      if (each.monitor->look_due() <= now) each.monitor->look(each.lane->look(), now, true);
      each.monitor->judge(now);
    }
}

void LaneWatch::count_quick(const Lane& lane, std::uint32_t bytes) {
  Watched& each = watched(lane.index());
  if (each.monitor) each.monitor->count_quick(bytes);
}

void LaneWatch::forget(std::uint32_t index) {
  Watched& each = watched(index);
  if (!each.monitor || each.outstanding == 0) return;
  each.monitor->forget();
  settle(each, 1);
}

void LaneWatch::settle(Watched& each, std::uint64_t chunks) {
  if (chunks == 0) return;
  each.outstanding -= chunks;
  if (each.outstanding == 0) outstanding_.fetch_sub(1, std::memory_order_relaxed);
}

void LaneWatch::check_overdue(double now) {
  for (Watched& each : lanes_)
    if (each.lane != nullptr && each.outstanding != 0 && each.monitor->look_due() <= now)
      each.monitor->look(each.lane->look(), now, false);
}

// Told once, until it is even again.
void LaneWatch::compare(std::uint32_t index, double now) {
  double fastest = 0;
  for (const Watched& each : lanes_)
    if (each.monitor && now - each.monitor->last_done() < kBusy) fastest = std::max(fastest, each.monitor->rate());
  Watched& own = lanes_[index];
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
  report(index, event);
}

// A lane that flutters does not drive all else out of the ring of events.
void LaneWatch::report(std::uint32_t index, monitor::Event event) {
  Watched& each = lanes_[index];
  if (event.at != 0) {
    const double at = static_cast<double>(event.at) / options_.monitor.stamps_per_second;
    if (each.quiet_from - at > kEventsAtOnce * kBetweenEvents) return;
    each.quiet_from = std::max(each.quiet_from, at) + kBetweenEvents;
  }
  event.lane = static_cast<int>(index);
  event.peer = options_.process;
  if (options_.report) return options_.report(event);
  if (options_.recorder != nullptr) options_.recorder->tell(event);
}

}  // namespace tutti
