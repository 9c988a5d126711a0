// Who is to be told of deaths and goodbyes, and who is called now and then. Handlers run on the control thread. Any
// thread may subscribe; died(), left() and tick() are for the control thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "control/death.hpp"
#include "control/handler_table.hpp"
#include "control/roster.hpp"
#include "net/event_loop.hpp"

namespace tutti {

class Subscriptions {
 public:
  using Key = std::uint64_t;
  using DeathHandler = std::function<void(int process, const Death& death)>;
  using LeaveHandler = std::function<void(int process)>;

  /// `pulse`: seconds from one to the next.
  Subscriptions(EventLoop& loop, const Roster& roster, double pulse)
      : loop_(loop), roster_(roster), pulse_seconds_(pulse) {}

  /// Deaths that happened before are told too. Each process once, and once more when a presumed death becomes known.
  Key on_death(DeathHandler handler);
  Key on_leave(LeaveHandler handler);
  Key on_pulse(std::function<void()> handler);
  /// Returns when the handler does not run, and will not.
  void remove(Key key);

  void died(int process, const Death& death) { deaths_.call_all(process, death); }
  void left(int process) { leaves_.call_all(process); }
  /// Returns when the next pulse is due.
  double tick();

 private:
  EventLoop& loop_;
  const Roster& roster_;
  const double pulse_seconds_;
  HandlerTable<Key, int, Death> deaths_;
  HandlerTable<Key, int> leaves_;
  HandlerTable<Key> pulses_;
  std::atomic<Key> next_key_{1};
  double next_pulse_ = 0;  // control thread only; 0: nobody has wanted one
};

}  // namespace tutti
