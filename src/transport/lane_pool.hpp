// The lanes that a process shares with a peer: one record per lane, with all that is known of it, and the choice of the
// lane that a frame goes on.
//
// A chunk goes to the lane that is likely to be done with it first (lane_shares.hpp); no lane gets more than it needs
// to stay busy, so that a slow lane never delays the end of an operation. A lane that is suspect gets nothing new while
// there are others. Chunks that are posted and completed are counted here, for the choice and for the monitors.
//
// Part of a Peer; guarded by its mutex. Records stay where they are as long as the pool.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/lane.hpp"
#include "transport/lane_shares.hpp"
#include "transport/lane_slot.hpp"
#include "transport/lane_watch.hpp"
#include "transport/link_state.hpp"
#include "transport/peer_context.hpp"

namespace tutti {

/// A lane through all its incarnations.
struct LaneEntry {
  LaneEntry(std::uint32_t number, const PeerContext& context)
      : index(number), slot(context.options.times, context.dials, context.now()), quiet_since(context.now()) {}

  const std::uint32_t index;
  LaneSlot slot;
  std::shared_ptr<Lane> live;  // the incarnation in use; null: it is down
  LaneLoad load;               // of that one
  WatchedLane watch;
  std::uint64_t reads = 0;         // how often it was read
  std::uint64_t reads_probed = 0;  // as of the last probe()
  double quiet_since;              // when probe() last found something read, or probed

  LaneKey key() const { return key_of(index, live->epoch()); }
};

class LanePool {
 public:
  explicit LanePool(PeerContext& context);

  // Records.
  /// Makes it, and those of lower index, if it is not there yet.
  LaneEntry& entry(std::uint32_t index);
  const std::deque<LaneEntry>& entries() const { return entries_; }
  std::deque<LaneEntry>& entries() { return entries_; }
  /// Returns null if this incarnation is not in use.
  LaneEntry* find(LaneKey key) {
    const auto index = static_cast<std::uint32_t>(key);
    if (index >= entries_.size()) return nullptr;
    LaneEntry& entry = entries_[index];
    return entry.live && entry.key() == key ? &entry : nullptr;
  }
  /// Returns the lanes in use, in the order in which they came up.
  const std::vector<LaneEntry*>& live() const { return live_; }
  bool empty() const { return live_.empty(); }
  std::size_t size() const { return live_.size(); }
  bool all_suspect() const { return suspects_ == live_.size(); }
  /// Returns null if nothing is measured.
  LaneWatch* watch() const { return watch_.get(); }

  // What becomes of lanes.
  void add(LaneEntry& entry, std::shared_ptr<Lane> lane, bool relayed);
  /// Takes it out of use, and returns what was live.
  std::shared_ptr<Lane> remove(LaneEntry& entry, const std::string& why);
  /// The peer is gone: takes all out of use for good.
  std::vector<std::shared_ptr<Lane>> remove_all(const std::string& why);
  /// Updates which lanes are suspect, and calls `on_dead` for each that is to be given up, with the seconds of silence.
  void judge(double now, const std::function<void(Lane&, double)>& on_dead);
  /// Sends something on lanes on which nothing came for a while: only what was sent can go unanswered.
  void probe(double now);
  void record_states();
  /// Returns whether a lane other than this one is healthy.
  bool has_others(const LaneEntry& entry) const;

  // Choice. best() and answer() need a lane.
  /// Return the lane for what must come through.
  LaneEntry& best_entry() const;
  Lane& best() const { return *best_entry().live; }
  /// Returns null if all have enough, or it is better to wait for one that has. What is copied does not wait.
  LaneEntry* choose(std::size_t bytes, bool copied) const {
    return live_.size() == 1 ? live_.front() : choose_of_many(bytes, copied);
  }
  /// Returns the lane for an answer to what came on `latest` (null: not known): that one, unless what waits there would
  /// hold the answer up.
  Lane& answer(Lane* latest);

  // Traffic.
  /// Returns the time of a post that is measured, or 0 if there is nothing to measure.
  double post_time() const { return live_.size() > 1 || watch_ ? context_.now() : 0; }
  void post(LaneEntry& entry, std::size_t bytes, bool copied, double now) {
    if (!copied) LaneShares::post(entry.load, chunk_cost(bytes));
    if (watch_) watch_post(entry, bytes, now);
  }
  /// `done` was acknowledged, or dropped: then it has no time of posting.
  void complete(const LinkSender::Completed& done, double arrived, double now);
  /// All that an acknowledgement completed was passed to complete().
  void settle(double now);
  /// Returns when the receiver sent `stamp`, by this clock; `now` if it sent none.
  double arrival(std::uint32_t stamp, double now) { return stamp != 0 ? shares_.arrival(stamp, now) : now; }
  /// While chunks are sent, measures lanes that get none of them by bytes that nobody waits for.
  void send_trials(double now) {
    if (shares_.may_want_trials(now)) post_trials(now);
  }
  void on_tried(const FrameHeader& header);
  /// A chunk that came on the lane had its checksum.
  void count_checked(LaneEntry& entry) {
    if (watch_) LaneWatch::count_checked(entry.watch);
  }
  /// `what` happened is told in a sentence.
  void count_corrupted(LaneEntry& entry, LaneWatch::Corruption kind, const std::string& what) {
    if (watch_) watch_->corrupted(entry.watch, kind, context_.now(), what);
  }

 private:
  bool is_trusted(const LaneEntry& entry) const;
  /// Returns the lane that carries everything if the others are spares; null: all carry.
  const Lane* only() const { return context_.options.only_one_lane && !live_.empty() ? &best() : nullptr; }
  LaneEntry* quickest(std::size_t bytes) const;
  LaneEntry* choose_of_many(std::size_t bytes, bool copied) const;
  void watch_post(LaneEntry& entry, std::size_t bytes, double now);
  void post_trials(double now);

  PeerContext& context_;
  std::deque<LaneEntry> entries_;  // by lane index
  std::vector<LaneEntry*> live_;   // those in use
  std::size_t suspects_ = 0;       // of live_
  LaneShares shares_;
  std::unique_ptr<LaneWatch> watch_;
};

}  // namespace tutti
