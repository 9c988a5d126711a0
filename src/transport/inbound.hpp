// The links from a peer to this process, on the lanes of a LanePool. Decides where each payload lands, and acknowledges
// what has come and how far the sender may go. Part of a Peer and guarded by its mutex; open() and the links take it.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transport/lane_pool.hpp"
#include "transport/link.hpp"
#include "transport/link_state.hpp"
#include "transport/peer_context.hpp"

namespace tutti {

class Inbound {
 public:
  Inbound(PeerContext& context, LanePool& lanes) : context_(context), lanes_(lanes) {}

  /// The link keeps `self` alive.
  static std::unique_ptr<RecvLink> open(const std::shared_ptr<Inbound>& self, const LinkId& id);

  /// The lane is closed; what it was delivering has not come.
  void lane_lost(const Lane& lane);
  /// Sends the acknowledgements and requests again that a lost lane may not have delivered, as soon as there is a lane.
  void resend_acks();
  /// Returns where the payload of a frame goes; null: nowhere.
  Result<std::byte*> begin(Lane& lane, const FrameHeader& header);
  /// A chunk that came corrupted is asked for again.
  Receipt on_data(Lane& lane, const FrameHeader& header);
  Status on_open(Lane& lane, const LinkId& id);
  void on_close(const LinkId& id);
  /// The lane named there is out of use at this end: reports what has come, and then that the lane is fenced.
  void answer_fence(Lane& lane, const FrameHeader& header);
  /// Reports that the trial of this lane has come.
  void on_trial(const Lane& lane);
  void pause(bool settled);
  /// Returns whether a chunk is expected that has not come.
  bool awaits() const;

 private:
  struct Link;

  void close(const Link& link);
  void maybe_ack(Link& link, bool settled);
  void ack_all(Lane& lane);
  void send_ack(Link& link, Lane& lane);
  void send_close(Lane& lane, const LinkId& id);
  void ask_again(const Link& link, const LinkReceiver::Corrupted& chunk, Lane& lane);

  PeerContext& context_;
  LanePool& lanes_;
  bool ack_may_be_lost_ = false;
  Lane* latest_ = nullptr;  // the lane read last: acknowledgements go back on it
  std::unordered_map<LinkId, Link*> links_;
  std::unordered_set<LinkId> awaited_;  // the sender has opened them, we have not
  std::unordered_set<LinkId> closed_;   // by us, and not by the sender: it may not have heard of it
  std::vector<Link*> touched_;          // received something since they were last acknowledged
};

}  // namespace tutti
