#include "transport/shm/peer_fence.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "memory/sealed.hpp"
#include "transport/shm/segment_memory.hpp"

namespace tutti {
namespace {

constexpr double kWarnedAfter = 5;  // seconds

}  // namespace

void PeerFence::begin() {
  begun_ = true;
  deadline_ = Deadline::in(seconds_);
  warning_ = Deadline::in(kWarnedAfter);
  for (int peer = 0; peer < host_.size(); ++peer)
    if (peer != host_.rank() && host_.is_here(peer)) (stop(peer) ? awaited_ : stuck_).push_back(peer);
}

/// Tells a peer to touch no memory of others any more. Returns false if it lives and its segment cannot be attached to.
bool PeerFence::stop(int peer) {
  const SegmentName& name = host_.name_of(peer);
  // A peer that this rank never met may have met it.
  if (const Status attached = host_.attach(peer); !attached)
    return name.process == process_identity() || attached.error().code == ErrorCode::rank_died ||
           !is_open(name.pid, name.descriptor, name.inode);
  host_.head_of(peer).fence.stopped.store(1, std::memory_order_seq_cst);
  return true;
}

/// Returns whether a peer that was told to stop touches no memory of others now, or has ended.
bool PeerFence::is_outside(int peer) const {
  if (!host_.is_attached(peer)) return true;
  if (host_.head_of(peer).fence.inside.load(std::memory_order_seq_cst) == 0) return true;
  return !host_.memory_of(peer).same_process() && has_ended(host_.name_of(peer).pid);
}

bool PeerFence::close() {
  if (!begun_) begin();
  std::erase_if(awaited_, [&](int peer) { return is_outside(peer); });
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
