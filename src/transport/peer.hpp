// Another process, as this one is connected to it: the lanes the two share, and all links between them, both ways. Data
// of one direction and acknowledgements of the other travel together, so that TCP need not acknowledge on its own.
//
// Its mutex guards it, its lanes and its links. Links lock it themselves; whoever drives a lane holds it.
// Links keep it alive; after fail() they report the error and do nothing more, except that chunks which came before are
// still handed out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/inbound.hpp"
#include "transport/lane.hpp"
#include "transport/link.hpp"
#include "transport/link_state.hpp"
#include "transport/outbound.hpp"

namespace tutti {

class Peer final : public LaneOwner, public std::enable_shared_from_this<Peer> {
 public:
  /// `name` is for messages.
  Peer(std::string name, const LinkLimits& limits)
      : name_(std::move(name)), limits_(limits), outbound_(*this), inbound_(*this) {}

  const std::string& name() const { return name_; }
  const LinkLimits& limits() const { return limits_; }

  /// Lock; return at once. send() has no credit until a lane is up and the other process has its end open, too.
  std::unique_ptr<SendLink> open_send(const LinkId& id);
  std::unique_ptr<RecvLink> open_recv(const LinkId& id);

  // Under the mutex, as is all of LaneOwner:
  /// False where the lane was refused: all is over, or its last incarnation is still up, or not fenced yet.
  bool lane_up(std::shared_ptr<Lane> lane);
  /// All links get this error; all lanes are closed. `orderly`: the peer said goodbye.
  void fail(const Error& why, bool orderly);
  const std::optional<Error>& error() const { return error_; }
  bool left_in_order() const { return left_in_order_; }
  const std::vector<std::shared_ptr<Lane>>& lanes() const { return lanes_; }

  Result<std::byte*> begin(Lane& lane, const FrameHeader& header) override;
  Status complete(Lane& lane, const FrameHeader& header) override;
  void transmitted(Lane& lane, const FrameHeader& header) override;
  void pause(Lane& lane, bool settled) override;
  /// Fails the links when this was the last lane.
  void lane_down(Lane& lane, const Error& why, bool orderly) override;

 private:
  friend class Outbound;
  friend class Inbound;

  std::string name_;
  LinkLimits limits_;
  std::vector<std::shared_ptr<Lane>> lanes_;  // those that live
  Outbound outbound_;
  Inbound inbound_;
  std::optional<Error> error_;
  bool left_in_order_ = false;
};

}  // namespace tutti
