// Takes the memory of calls that fail back from the ranks of the host: when closed, no peer reads or writes it any
// more, but for those of other processes that stand still in the middle of a step. `Fence` in segment.hpp says why that
// is safe. Never blocks. Used by the owner of the communicator's token.
#pragma once

#include <vector>

#include "base/clock.hpp"
#include "transport/shm/host.hpp"

namespace tutti {

class PeerFence {
 public:
  /// `seconds`: how long ranks of other processes are waited for. Ranks of this one are waited for as long as it takes.
  PeerFence(Host& host, double seconds) : host_(host), seconds_(seconds) {}

  /// Keeps peers from touching memory of others from now on. Returns whether none does any more; if not, call it again.
  bool close();
  /// Returns ranks of other processes that may still be at it, once closed.
  const std::vector<int>& stuck() const { return stuck_; }

 private:
  void begin();
  bool stop(int peer);
  bool is_outside(int peer) const;

  Host& host_;
  const double seconds_;
  bool begun_ = false;
  bool warned_ = false;
  Deadline deadline_;
  Deadline warning_;
  std::vector<int> awaited_;
  std::vector<int> stuck_;
};

}  // namespace tutti
