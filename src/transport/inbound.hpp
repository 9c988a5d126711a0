// The links from a peer to this process, on the lanes of the Peer it is part of. Says where each payload lands, and
// tells the sender what has come and how far it may go. Guarded by the Peer's mutex; open() takes it.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transport/lane.hpp"
#include "transport/link.hpp"
#include "transport/link_state.hpp"

namespace tutti {

class Peer;

class Inbound {
 public:
  explicit Inbound(Peer& peer) : peer_(peer) {}

  std::unique_ptr<RecvLink> open(const LinkId& id);

  /// The lane is closed; what it was delivering has not come.
  void lane_lost(const Lane& lane);
  /// What a lost lane may have failed to tell the sender is told again, as soon as there is a lane.
  void resend_acks();
  /// Where the payload of a frame goes; null: nowhere.
  Result<std::byte*> begin(Lane& lane, const FrameHeader& header);
  void on_data(const Lane& lane, const FrameHeader& header);
  Status on_open(Lane& lane, const LinkId& id);
  void on_close(const LinkId& id);
  Status on_fence(Lane& lane, const FrameHeader& header);
  /// Says that what was to be tried has come.
  void on_trial(const Lane& lane);
  void pause(bool settled);
  /// A chunk is expected that has not come.
  bool awaits() const;

 private:
  class Link;

  void close(Link& link);
  void maybe_ack(Link& link, bool settled);
  void ack_all(Lane& lane);
  void send_close(const LinkId& id);
  void send_ack(Link& link, Lane& lane);

  Peer& peer_;
  bool ack_may_be_lost_ = false;
  Lane* latest_ = nullptr;  // the lane read last: acknowledgements go back on it
  std::unordered_map<LinkId, Link*> links_;
  std::unordered_set<LinkId> awaited_;  // the sender has opened them, we have not
  std::vector<Link*> touched_;          // received something since they were last acknowledged
};

}  // namespace tutti
