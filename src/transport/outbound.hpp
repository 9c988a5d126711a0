// The links from this process to a peer, on the lanes of the Peer it is part of. A chunk goes to the lane that is
// likely to be done with it first (lane_shares.hpp); no lane gets more than it needs to stay busy, so that a slow one
// never has the last word. When a lane is lost, the receiver is asked to fence it, and what had not come over is sent
// again on others. Guarded by the Peer's mutex; open() takes it.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "transport/lane.hpp"
#include "transport/lane_shares.hpp"
#include "transport/link.hpp"
#include "transport/link_state.hpp"

namespace tutti {

class Peer;

class Outbound {
 public:
  explicit Outbound(Peer& peer);

  std::unique_ptr<SendLink> open(const LinkId& id);

  void lane_up(Lane& lane);
  void lane_lost(const Lane& lane);
  /// The caller's memory is held for want of an acknowledgement, or a chunk waits for credit.
  bool awaits() const;
  /// Every chunk that was sent has come, also those of links that are closed.
  bool all_acknowledged() const;
  /// Whether chunks of a communicator's links have not been acknowledged.
  bool owes(std::uint64_t communicator) const;
  /// Has the receiver acknowledge at once what has come; it takes its time with chunks that were copied.
  void ask_for_acknowledgements();

  void transmitted(const FrameHeader& header);
  /// The receiver has closed its end: nothing sent on this link matters any more.
  void on_close(const LinkId& id);
  Status on_ack(const FrameHeader& header);
  /// False: nobody asked.
  bool on_fenced(const FrameHeader& header);
  /// The trial of the lane named there has come through.
  void on_tried(const FrameHeader& header);
  /// There is a lane. The one for an answer to what came on `latest` (null: nobody knows): that one, unless what waits
  /// there would hold the answer up.
  Lane& answer_lane(Lane* latest);

 private:
  class Link;
  struct Sending;
  struct LostLane {
    std::uint32_t index;
    std::uint32_t epoch;
  };

  bool send(Sending& link, const std::byte* data, std::size_t bytes, OperationTag tag);
  void close(Sending& link);
  void end_if_over(const LinkId& id);
  void announce(const LinkId& id, FrameType type);
  void watch_credit(Sending& link);
  void watch_post(const Lane& lane, std::size_t bytes, double now);
  void watch_done(const LinkSender::Completed& done, double now);
  void post_chunk(Lane& lane, const Sending& link, std::uint64_t sequence);
  Lane* quickest(std::size_t bytes) const;
  Lane* choose(std::size_t bytes, bool copied) const;
  void try_lanes(double now);
  void discharge(const LinkSender::Completed& done, double arrived, double now);
  void ask_to_fence(const LostLane& lost);
  void resend(const LostLane& lost);

  Peer& peer_;
  LaneShares shares_;
  std::vector<LostLane> lost_;  // not fenced by the receiver yet: the latest of each index
  std::unordered_map<LinkId, std::shared_ptr<Sending>> links_;
  double refused_ = 0;                            // seconds so far in which chunks waited for credit
  std::vector<LinkSender::Completed> completed_;  // scratch
};

}  // namespace tutti
