// The links from this process to a peer, on the lanes of a LanePool. When a lane is lost, the receiver is asked to
// fence it, and what had not come over is sent again on others; so is a chunk that the receiver found corrupted. Part
// of a Peer and guarded by its mutex; open() and the links take it.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "transport/lane_pool.hpp"
#include "transport/link.hpp"
#include "transport/link_state.hpp"
#include "transport/peer_context.hpp"

namespace tutti {

class Outbound {
 public:
  Outbound(PeerContext& context, LanePool& lanes) : context_(context), lanes_(lanes) {}

  /// The link keeps `self` alive.
  static std::unique_ptr<SendLink> open(const std::shared_ptr<Outbound>& self, const LinkId& id);

  /// A lane was added to the pool, or taken from it.
  void lane_up();
  void lane_lost(const Lane& lane, bool is_corrupted);
  /// Returns whether the caller's memory is held for want of an acknowledgement, or a chunk waits for credit.
  bool awaits() const;
  /// Returns whether every chunk that was sent has come, also those of links that are closed.
  bool all_acknowledged() const;
  /// Returns whether chunks of a communicator's links have not been acknowledged.
  bool owes(std::uint64_t communicator) const;
  /// Has the receiver acknowledge at once what has come; it takes its time with chunks that were copied.
  void ask_for_acknowledgements();

  void transmitted(const FrameHeader& header);
  /// The receiver has closed its end: nothing sent on this link matters any more.
  void on_close(const LinkId& id);
  Status on_ack(const FrameHeader& header);
  /// Returns false if nobody asked for this fence.
  bool on_fenced(const FrameHeader& header);
  /// A chunk came corrupted. Returns whether it was sent again: it may have been already.
  Result<bool> on_again(const FrameHeader& header);

 private:
  class Link;
  struct Sending;
  struct LostLane {
    std::uint32_t index;
    std::uint32_t epoch;
    bool is_corrupted;
  };

  bool send(Sending& link, const std::byte* data, std::size_t bytes, OperationTag tag);
  void close(Sending& link);
  void end_if_over(const LinkId& id);
  void announce(const LinkId& id, FrameType type);
  void measure_credit(Sending& link);
  bool is_checked(const Sending& link, std::uint64_t sequence, bool again) const;
  void post_chunk(Lane& lane, const Sending& link, std::uint64_t sequence, bool again = false);
  void ask_to_fence(const LostLane& lost);
  void resend(const LostLane& lost);
  void send_again(Sending& link, std::uint64_t sequence);
  void drop_completed();

  PeerContext& context_;
  LanePool& lanes_;
  std::vector<LostLane> lost_;  // not fenced by the receiver yet: the latest of each index
  std::unordered_map<LinkId, std::shared_ptr<Sending>> links_;
  double refused_ = 0;                            // seconds so far in which chunks waited for credit
  std::vector<LinkSender::Completed> completed_;  // scratch
};

}  // namespace tutti
