// Asks the host at the other end of a lane whether there is a way there, beside what waits on the lane: by connections
// that are begun and never used. The kernel over there answers, whatever its processes do. A lane that lost packets may
// be silent for longer than this takes; a way that is gone answers nothing. Guarded by the mutex of the lane's owner.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/fd.hpp"
#include "net/sockets.hpp"
#include "transport/lane_slot.hpp"

namespace tutti {

class WayProbe {
 public:
  /// Where the other process listens on the lane's rail; none: not known (yet), and nobody is asked.
  using Target = std::function<std::optional<SocketAddress>()>;

  /// `source`: the lane's own address.
  WayProbe(SocketAddress source, Target target, Sockets& sockets)
      : source_(source), target_(std::move(target)), sockets_(sockets) {}

  /// What is known, for a lane that has been silent for so many seconds. Asks, a few times.
  Silence::Way ask(double seconds);
  /// The lane was heard.
  void reset();

 private:
  bool is_answered();
  void ask_once(double seconds);

  SocketAddress source_;
  Target target_;
  Sockets& sockets_;
  std::vector<Fd> questions_;  // not answered yet
  int asked_ = 0;              // since the lane was heard, or the last answer
  double first_asked_ = 0;     // seconds of silence
  double next_ = 0;            // when to ask again
  double answered_ = -kNever;  // when there last was an answer
};

}  // namespace tutti
