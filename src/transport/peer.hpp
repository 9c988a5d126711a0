// Another process, as this one is connected to it: the lanes the two share, and all links between them, both ways. Data
// of one direction and acknowledgements of the other travel together, so that TCP need not acknowledge on its own.
//
// Lanes come and go: each index has a slot with its history (lane_slot.hpp), and every incarnation of a lane an epoch
// of its own. While no lane is up, links wait; what ends the waiting is a lane that comes back, the deadline of whoever
// waits, or word that the process is gone.
//
// Its mutex guards it, its lanes and its links. Links lock it themselves; whoever drives a lane holds it.
// Links keep it alive; after fail() they report the error and do nothing more, except that chunks which came before are
// still handed out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/inbound.hpp"
#include "transport/lane.hpp"
#include "transport/lane_slot.hpp"
#include "transport/lane_watch.hpp"
#include "transport/link.hpp"
#include "transport/link_state.hpp"
#include "transport/outbound.hpp"

namespace tutti {

struct PeerOptions {
  LinkLimits limits;
  LaneTimes times;
  bool only_one_lane = false;     // the first that is up; the others are spares
  std::function<double()> clock;  // seconds; none: time stands still
  /// Asks that tick() be called at that time or before, earlier than it was promised. Called with the mutex held; none:
  /// tick() is called every few milliseconds.
  std::function<void(double)> tick_by;
  /// Told of each change, by a word that does not change: for tests and observers.
  std::function<void(const char*)> observer;
  std::optional<LaneWatchOptions> watch;  // none: nothing is measured or recorded for others
};

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
      : name_(std::move(name)), options_(std::move(options)), outbound_(*this), inbound_(*this) {
    if (options_.watch) watch_ = std::make_unique<LaneWatch>(*options_.watch, name_);
  }

  const std::string& name() const { return name_; }
  const LinkLimits& limits() const { return options_.limits; }
  double now() const { return options_.clock ? options_.clock() : 0; }

  /// Lock; return at once. send() has no credit until a lane is up and the other process has its end open, too.
  std::unique_ptr<SendLink> open_send(const LinkId& id);
  std::unique_ptr<RecvLink> open_recv(const LinkId& id);

  // Under the mutex, as is all of LaneOwner:
  /// This end dials lanes 0 to `count`; where none comes up within `patience` seconds, the peer counts as unreachable.
  /// One more lane goes by way of a neighbour, while there is no other.
  void dial_lanes(std::uint32_t count, double patience);
  bool dials() const { return dials_; }
  /// False where the lane was refused: all is over, or this incarnation is.
  bool lane_up(std::shared_ptr<Lane> lane);
  /// The next attempt follows, unless the peer has refused for good, or is at none of its addresses for a second.
  void dial_failed(const WantedLane& lane, const Error& why, DialFailure kind);
  /// The port of a lane that is down has a carrier again.
  void port_back(std::uint32_t index);
  /// Gives up lanes that went silent, probes, and says which lanes to dial. Returns when to be called again at the
  /// latest: seconds on the clock.
  double tick(std::vector<WantedLane>& wanted);
  /// Null: nobody does.
  LaneWatch* watch() const { return watch_.get(); }
  /// "lane 0 (10.0.0.1:80) healthy, lane 1 dead for 3.2 s: no carrier"
  std::string describe_lanes() const;
  /// All links get this error; all lanes are closed. `orderly`: the peer said goodbye.
  void fail(const Error& why, bool orderly);
  const std::optional<Error>& error() const { return error_; }
  bool left_in_order() const { return left_in_order_; }
  /// Chunks that were sent to it have not been acknowledged; ask_for_acknowledgements() has it do that soon.
  bool is_owed() const { return !error_ && !outbound_.all_acknowledged(); }
  bool owes(std::uint64_t communicator) const { return !error_ && outbound_.owes(communicator); }
  void ask_for_acknowledgements() { outbound_.ask_for_acknowledgements(); }
  const std::vector<std::shared_ptr<Lane>>& lanes() const { return lanes_; }
  const std::vector<LaneSlot>& slots() const { return slots_; }
  /// There is a lane. The one for what must come through.
  Lane& best_lane() const;
  /// Not suspect, or all are.
  bool is_trusted(const Lane& lane) const;
  /// The lane that carries everything, where the others are spares; null: all carry.
  const Lane* only_lane() const { return options_.only_one_lane && !lanes_.empty() ? &best_lane() : nullptr; }

  Result<std::byte*> begin(Lane& lane, const FrameHeader& header) override;
  Status complete(Lane& lane, const FrameHeader& header) override;
  void transmitted(Lane& lane, const FrameHeader& header) override;
  void unsettled() override;
  void pause(Lane& lane, bool settled) override;
  void lane_down(Lane& lane, const Error& why, bool orderly) override;

 private:
  friend class Outbound;
  friend class Inbound;

  LaneSlot& slot_of(std::uint32_t index);
  void note(const char* what) const {
    if (options_.observer) options_.observer(what);
  }
  void note_slots() const;
  void tick_by(double time) const {
    if (!error_ && options_.tick_by) options_.tick_by(time);
  }
  void judge(double now);
  void probe(double now);
  void give_up_unreachable(double now);
  bool wants_relay(double now);
  double due(const LaneSlot& slot) const;

  std::string name_;
  PeerOptions options_;
  std::vector<std::shared_ptr<Lane>> lanes_;  // those that live
  std::vector<LaneSlot> slots_;               // by lane index
  std::vector<std::uint64_t> reads_;          // by lane index: how often it was read
  struct Quiet {
    std::uint64_t reads = 0;
    double since = 0;
  };
  std::vector<Quiet> quiet_;  // by lane index, as of the last tick
  std::size_t suspects_ = 0;  // of lanes_
  bool dials_ = false;
  std::uint32_t relay_ = ~std::uint32_t{0};  // index of the lane by way of a neighbour, at the end that dials
  double direct_until_ = 0;                  // when there last was another one
  bool unsettled_ = false;                   // something may wait for an answer: tick() comes within kLookEvery
  double give_up_at_ = kNever;               // where no lane has ever been up
  std::unique_ptr<LaneWatch> watch_;
  Outbound outbound_;
  Inbound inbound_;
  std::optional<Error> error_;
  bool left_in_order_ = false;
  bool leaving_ = false;  // the peer said goodbye on a lane
};

}  // namespace tutti
