// What the monitor tells while a job runs, to whoever asks for it in the same process: ranks that are late, lanes that
// fail, drop or recover and why, communicators that break. The same events leave the process by `tutti events` and
// `tutti agent`; nothing of this costs anything until the first subscription.
//
// Handlers run one after another on one thread of tutti's own, with signals masked. A handler that is slow or blocks
// delays other handlers, never the job; events that were overwritten meanwhile are counted in `missed`. It must not
// throw, and may use or end any subscription, its own too. In a child made by fork() no handler runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tutti/error.hpp"

namespace tutti {

struct MonitorEvent {
  enum class Kind : std::uint32_t {
    communicator_created,
    communicator_closed,
    communicator_broken,  // text: the error
    rank_late,            // peer, operation; values: seconds
    lane_up,              // lane, peer
    lane_down,            // lane, peer; text: why
    lane_dropped,         // values: bytes per second usual and in the drop, seconds since its beginning; cause
    lane_recovered,       // values: usual, mean in the drop, seconds it lasted; began; cause
    lane_stalled,         // values: usual, bytes outstanding, seconds without a completion; cause
    lanes_uneven,         // values: bytes per second of this lane and of the fastest of its link
    lane_corrupted,       // values: chunks so far that came corrupted here, and at the peer; text: what
  };
  enum class Cause : std::uint32_t { none, sender_starved, receiver_late, path_congested };

  Kind kind{};
  Cause cause = Cause::none;
  std::chrono::system_clock::time_point at;
  std::chrono::system_clock::time_point began;  // of what lasted; else the same as `at`
  std::uint64_t index = 0;                      // counts up in this process
  std::uint64_t missed = 0;                     // events before this one that were lost
  std::uint64_t communicator = 0;               // its id, the same on all ranks; 0: none
  int rank = -1;                                // of this process in the communicator; -1: none
  int peer = -1;
  int lane = -1;
  std::uint32_t operation = 0;
  double values[3] = {};
  std::string text;
};

/// "rank_late", and so on; "?" for a value outside the enumeration.
std::string_view name_of(MonitorEvent::Kind kind);
/// "path_congested", and so on.
std::string_view name_of(MonitorEvent::Cause cause);

/// While it lives, its handler is called. Ending it waits until the handler does not run any more, but where the
/// handler itself ends it.
class Subscription {
 public:
  Subscription() = default;
  ~Subscription() { end(); }
  Subscription(Subscription&&) noexcept = default;
  Subscription& operator=(Subscription&& other) noexcept;

  void end();

 private:
  struct Entry;
  class Feed;
  explicit Subscription(std::shared_ptr<Entry> entry) : entry_(std::move(entry)) {}
  friend Result<Subscription> on_event(std::function<void(const MonitorEvent&)> handler);

  std::shared_ptr<Entry> entry_;
};

/// Calls `handler` for every event of this process from now on. Any thread. Fails where nothing is recorded
/// (TUTTI_MONITOR=0), and in a child made by fork().
[[nodiscard]] Result<Subscription> on_event(std::function<void(const MonitorEvent&)> handler);

}  // namespace tutti
