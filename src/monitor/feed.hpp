// What wakes the thread that calls handlers of events (tutti/monitor.hpp). Recorder::record calls announce_event()
// after each event: a load while nobody listens, a system call while somebody does. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti::monitor {

struct FeedDoor {
  std::atomic<bool> listening{false};
  std::atomic<std::uint32_t> told{0};  // a futex: counts announcements, so that none is slept through
};
extern FeedDoor feed_door;

void wake_feed();

inline void announce_event() {
  // Sequentially consistent, as the listener's store and the claim of an event's index before this are: either the
  // listener finds the event counted before its beginning, or we find the listener.
  if (feed_door.listening.load()) wake_feed();
}

}  // namespace tutti::monitor
