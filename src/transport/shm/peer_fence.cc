#include "transport/shm/peer_fence.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace tutti {
namespace {

constexpr double kWarnedAfter = 5;  // seconds

}  // namespace

void PeerFence::begin() {
  begun_ = true;
  deadline_ = Deadline::in(seconds_);
  warning_ = Deadline::in(kWarnedAfter);
  for (int peer = 0; peer < host_.size(); ++peer)
    if (peer != host_.rank() && host_.is_here(peer)) (host_.stop(peer) ? awaited_ : stuck_).push_back(peer);
}

bool PeerFence::close() {
  if (!begun_) begin();
  std::erase_if(awaited_, [&](int peer) { return host_.is_outside(peer); });
  if (awaited_.empty()) return true;
  if (!deadline_.passed()) return false;
  // Ranks of this process work on our memory by its address: nothing but waiting helps.
  const auto others = std::stable_partition(awaited_.begin(), awaited_.end(),
                                            [&](int peer) { return host_.memory_of(peer).same_process(); });
  stuck_.insert(stuck_.end(), others, awaited_.end());
  awaited_.erase(others, awaited_.end());
  if (!awaited_.empty() && warning_.passed() && !std::exchange(warned_, true))
    log::warn("rank {}: gave up, but rank {} of the same process is still at work on its memory; waiting for it",
              host_.rank(), awaited_.front());
  return awaited_.empty();
}

}  // namespace tutti
