// Another process, as this one is connected to it: the lanes the two share, and all links between them, both ways. Data
// of one direction and acknowledgements of the other travel together, so that TCP need not acknowledge on its own.
//
// Lanes come and go: each index has a record with its history (lane_pool.hpp), and every incarnation of a lane an epoch
// of its own. While no lane is up, links wait; what ends the waiting is a lane that comes back, the deadline of whoever
// waits, or a report that the process is gone.
//
// This class brings lanes up, gives them up, and passes on what comes on them. Its parts: LanePool has the lanes,
// Outbound and Inbound the links; they share a PeerContext. Its mutex guards it all. Links lock it themselves; whoever
// drives a lane holds it. Links keep the Peer alive; after fail() they report the error and do nothing more, except
// that chunks which came before are still handed out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rate_limited_log.hpp"
#include "transport/inbound.hpp"
#include "transport/lane.hpp"
#include "transport/lane_pool.hpp"
#include "transport/link.hpp"
#include "transport/outbound.hpp"
#include "transport/peer_context.hpp"

namespace tutti {

/// A lane that is to be dialed.
struct WantedLane {
  std::uint32_t index = 0;
  std::uint32_t epoch = 0;
  bool was_up = false;
  bool relayed = false;  // by way of a neighbour
};

/// Why a lane did not come up.
enum class DialFailure : std::uint8_t {
  passing,  // no answer, or the connection ended before it was a lane: the next attempt may succeed
  absent,   // nobody is there, or somebody else: the peer is not at this address
  final,    // the peer itself said that it counts this process as gone
};

class Peer final : public LaneOwner, public std::enable_shared_from_this<Peer> {
 public:
  /// `name` is for messages.
  Peer(std::string name, PeerOptions options)
      : context_{std::move(name), std::move(options), mutex_},
        lanes_(context_),
        outbound_(context_, lanes_),
        inbound_(context_, lanes_) {}

  const std::string& name() const { return context_.name; }
  double now() const { return context_.now(); }

  /// Lock; return at once. send() has no credit until a lane is up and the other process has its end open, too.
  std::unique_ptr<SendLink> open_send(const LinkId& id);
  std::unique_ptr<RecvLink> open_recv(const LinkId& id);

  // Under the mutex, as is all of LaneOwner:
  /// This end dials lanes 0 to `count`; where none comes up within `patience` seconds, the peer counts as unreachable.
  /// One more lane goes by way of a neighbour, while there is no other.
  void dial_lanes(std::uint32_t count, double patience);
  bool dials() const { return context_.dials; }
  /// False where the lane was refused: all is over, or this incarnation is.
  bool lane_up(std::shared_ptr<Lane> lane);
  /// The next attempt follows, unless the peer has refused for good, or is at none of its addresses for a second.
  void dial_failed(const WantedLane& lane, const Error& why, DialFailure kind);
  /// The port of a lane that is down has a carrier again.
  void port_back(std::uint32_t index);
  /// The same for all lanes that are down.
  void ports_back();
  /// Gives up lanes that went silent, probes, and adds the lanes to dial to `wanted`. Returns when to be called again
  /// at the latest: seconds on the clock.
  double tick(std::vector<WantedLane>& wanted);
  /// Returns null if nothing is measured.
  LaneWatch* watch() const { return lanes_.watch(); }
  /// "lane 0 (10.0.0.1:80) healthy, lane 1 dead for 3.2 s: no carrier"
  std::string describe_lanes() const;
  /// All links get this error; all lanes are closed. `orderly`: the peer said goodbye.
  void fail(const Error& why, bool orderly);
  const std::optional<Error>& error() const { return context_.error; }
  /// Chunks that were sent to it have not been acknowledged; ask_for_acknowledgements() has it do that soon.
  bool is_owed() const { return !context_.error && !outbound_.all_acknowledged(); }
  bool owes(std::uint64_t communicator) const { return !context_.error && outbound_.owes(communicator); }
  void ask_for_acknowledgements() { outbound_.ask_for_acknowledgements(); }
  const LanePool& lanes() const { return lanes_; }

  Result<std::byte*> begin(Lane& lane, const FrameHeader& header) override;
  Status complete(Lane& lane, const FrameHeader& header) override;
  void transmitted(Lane& lane, const FrameHeader& header) override;
  void unsettled() override { context_.look_soon(); }
  void pause(Lane& lane, bool settled) override;
  void lane_down(Lane& lane, const Error& why, bool orderly) override;

 private:
  Status on_data(Lane& lane, const FrameHeader& header);
  Status on_again(const FrameHeader& header);
  Status on_fence(Lane& lane, const FrameHeader& header);
  void judge(double now);
  void give_up_unreachable(double now);
  bool wants_relay(double now);
  bool goes_through_neighbour();
  double due(const LaneSlot& slot) const;

  PeerContext context_;
  LanePool lanes_;
  Outbound outbound_;
  Inbound inbound_;
  std::uint32_t relay_ = ~std::uint32_t{0};  // index of the lane by way of a neighbour, at the end that dials
  double direct_until_ = 0;                  // when there last was another one
  double give_up_at_ = kNever;               // if no lane has ever been up
  bool leaving_ = false;                     // the peer said goodbye on a lane
  RateLimitedLog corruption_log_;
};

}  // namespace tutti
