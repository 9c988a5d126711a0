// Reads the events of this process's recording in the order they were told, each once. Never waits. One thread; the map
// must outlive it.
//
// EventCursor is the part of it that other readers share: which events were seen, which were overwritten before they
// could be, and which are only being written.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "monitor/layout.hpp"

namespace tutti::monitor {

class EventCursor {
 public:
  template <typename Event>
  struct Seen {
    Event event;
    std::uint64_t missed = 0;  // lost right before this one
  };

  explicit EventCursor(std::uint64_t next = 0) : next_(next) {}

  std::uint64_t next() const { return next_; }
  /// Of the events found whole, in order, those not seen yet; `count`: how many were ever told. Stops before one that
  /// is not there but may be being written; if that takes longer than a second its writer is gone, and it is lost.
  template <typename Event>
  std::vector<Seen<Event>> take(std::vector<Event> found, std::uint64_t count);

 private:
  /// Whether to wait for the next event, which is not there.
  bool waits(std::uint64_t count);

  std::uint64_t next_ = 0;
  std::uint64_t missed_ = 0;  // not told yet
  bool blocked_ = false;      // by one that is not finished
  Deadline patience_;
};

template <typename Event>
std::vector<EventCursor::Seen<Event>> EventCursor::take(std::vector<Event> found, std::uint64_t count) {
  std::vector<Seen<Event>> seen;
  for (Event& event : found) {
    if (event.index < next_) continue;
    if (event.index > next_ && waits(count)) return seen;
    blocked_ = false;
    missed_ += event.index - next_;
    next_ = event.index + 1;
    seen.push_back({std::move(event), std::exchange(missed_, 0)});
  }
  if (next_ < count && !waits(count)) {
    blocked_ = false;
    missed_ += count - next_;
    next_ = count;
  }
  return seen;
}

struct ToldEvent {
  std::uint64_t index = 0;          // counts up in each recording
  std::uint64_t at = 0, began = 0;  // ticks
  EventKind kind{};
  Cause cause{};
  std::uint64_t communicator = 0;
  int rank = -1, peer = -1, lane = -1;
  std::uint32_t operation = 0;
  double values[3] = {};
  std::string text;
};

class EventReader {
 public:
  /// Begins with event `next`, or with the oldest there is.
  explicit EventReader(Map map, std::uint64_t next = 0) : map_(map), cursor_(next) {}

  bool has_new() const { return map_.head().event_count.get() != cursor_.next(); }
  std::vector<EventCursor::Seen<ToldEvent>> read();

 private:
  bool read_one(std::uint64_t index, ToldEvent& event) const;

  Map map_;
  EventCursor cursor_;
};

}  // namespace tutti::monitor
