// What the parts of a Peer share: its settings, the mutex that guards them all, the clock, whether the peer is gone,
// and when its lanes are looked at next. Everything under the mutex, but for `name`, `options` and now().
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "transport/checksums.hpp"
#include "transport/lane_slot.hpp"
#include "transport/lane_watch.hpp"
#include "transport/link_state.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct PeerOptions {
  LinkLimits limits;
  LaneTimes times;
  Checksums checksums = Checksums::sampled;
  bool only_one_lane = false;     // the first that is up; the others are spares
  std::function<double()> clock;  // seconds; none: time stands still
  /// Asks that tick() be called at that time or before, earlier than it was promised. Called with the mutex held; none:
  /// tick() is called every few milliseconds.
  std::function<void(double)> tick_by;
  /// Called at each change, with a word that does not change: for tests and observers.
  std::function<void(const char*)> observer;
  std::optional<LaneWatchOptions> watch;  // none: nothing is measured or recorded for others
};

struct PeerContext {
  static constexpr double kLookEvery = 0.01;  // seconds between looks at lanes on which something waits for an answer

  const std::string name;  // for messages
  const PeerOptions options;
  std::mutex& mutex;
  bool dials = false;               // this end brings lanes up
  bool looks_soon = false;          // something may wait for an answer: tick() comes within kLookEvery
  std::optional<Error> error = {};  // the peer is gone. Set once and never altered
  bool left_in_order = false;       // and had said goodbye

  double now() const { return options.clock ? options.clock() : 0; }
  void note(const char* what) const {
    if (options.observer) options.observer(what);
  }
  void tick_by(double time) const {
    if (!error && options.tick_by) options.tick_by(time);
  }
  /// Something begins to wait for an answer.
  void look_soon();
};

}  // namespace tutti
