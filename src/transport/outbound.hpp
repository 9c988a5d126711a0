// The links from this process to a peer, on the lanes of the Peer it is part of. Chunks go to the lane with the least
// outstanding; when a lane is lost, the receiver is asked to fence it, and what had not come over is sent again on the
// others. Guarded by the Peer's mutex; open() takes it.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "transport/lane.hpp"
#include "transport/link.hpp"
#include "transport/link_state.hpp"

namespace tutti {

class Peer;

class Outbound {
 public:
  explicit Outbound(Peer& peer) : peer_(peer) {}

  std::unique_ptr<SendLink> open(const LinkId& id);

  void lane_up(Lane& lane);
  /// Another lane lives.
  void lane_lost(const Lane& lane);
  /// Chunks are open on an incarnation of this lane that is lost.
  bool waits_for_fence(std::uint32_t lane) const;

  void transmitted(const FrameHeader& header);
  Status on_ack(const FrameHeader& header);
  void on_fenced(const FrameHeader& header);

 private:
  class Link;
  struct LostLane {
    std::uint32_t index;
    std::uint32_t epoch;
  };

  bool send(Link& link, const std::byte* data, std::size_t bytes, OperationTag tag);
  void close(Link& link);
  void announce(const LinkId& id, FrameType type);
  void post_chunk(Lane& lane, const Link& link, std::uint64_t sequence);
  Lane* least_loaded();
  void ask_to_fence(const LostLane& lost);
  void resend(const LostLane& lost);

  Peer& peer_;
  std::vector<std::uint64_t> outstanding_;  // by lane index: load of chunks not acked
  std::vector<LostLane> lost_;              // not fenced by the receiver yet
  std::unordered_map<LinkId, Link*> links_;
  std::vector<LinkSender::Completed> completed_;  // scratch
};

}  // namespace tutti
