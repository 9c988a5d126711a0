// How the chunks for a peer are shared between its lanes. Pure: no lane, no lock, no clock but the times that are
// handed in (seconds).
//
// Each lane has an estimate of its speed: the bytes it did of late, and the seconds in which it was at them. A chunk
// that was posted while others were outstanding took from their arrival to its own; one that was posted to an idle lane
// took from its posting to its arrival, less what the way takes anyway. So operations with pauses between them measure
// a lane as well as a stream does, and pauses themselves change nothing. When a chunk arrived is known by the
// receiver's clock: acknowledgements may wait behind the data that goes the other way, on another lane, longer than the
// chunk took.
//
// A chunk goes to the lane that is expected to be done with it first. Lanes count as equal unless one is clearly
// slower. A single chunk that a slow lane takes at once after a rest shows nothing: behind a token bucket the first one
// always goes fast. A slow lane may get so little that it cannot show that it has become faster: then wants_trial()
// asks for bytes that nobody waits for, which measure it at no cost for the operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/link_state.hpp"

namespace tutti {

/// A time as acknowledgements carry it: microseconds, of which the high bits are cut off; never 0.
inline std::uint32_t stamp_of(double now) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(now * 1e6)) | 1;
}

/// What LaneShares knows of a lane that is up. Others only ask.
struct LaneLoad {
  /// What an acknowledgement has completed on the lane.
  struct Sample {
    std::size_t bytes = 0;
    double begins = 0;
    bool from_idle = false;  // the lane had nothing else to do when this was posted
  };

  std::uint32_t index = 0;
  std::uint64_t outstanding = 0;
  double cost = 1;     // of a byte, in bytes of the fastest lane
  double work = 0;     // bytes done of late
  double seconds = 0;  // and the time they took
  double last_done = 0;
  double measured_at = 0;
  bool slow_at_length = false;  // when it last had more than a chunk to do
  double trial_at = 0;          // when the trial under way was posted; 0: none
  Sample sample;

  /// Returns bytes per second, or 0 if not known.
  double rate() const { return seconds > 0 ? work / seconds : 0; }
  /// Returns when the lane would be done with what it has and so many bytes more, as a number that grows with the time.
  double end(std::size_t bytes) const { return static_cast<double>(outstanding + bytes) * cost; }
  bool is_slow() const { return cost > 1; }
  bool is_idle() const { return outstanding == 0; }
};

class LaneShares {
 public:
  explicit LaneShares(std::size_t chunk_limit);

  /// Takes a new incarnation of a lane in, of which nothing is known. `load` stays where it is until lane_lost().
  void lane_up(LaneLoad& load, std::uint32_t index, double now);
  void lane_lost(LaneLoad& load);

  /// Counts bytes of a chunk that is not acknowledged yet.
  static void post(LaneLoad& load, std::size_t bytes) { load.outstanding += bytes; }
  /// The bytes were acknowledged, or nobody waits for them any more: then `posted_at` is 0, and they do not show how
  /// fast the lane is.
  static void done(LaneLoad& load, std::size_t bytes, double posted_at, double arrived);
  /// Estimates the speeds anew, after done() was called for all that an acknowledgement completed.
  void settle(double now);

  /// Returns when that happened which the receiver's clock had `stamp` for, by the sender's: as if all acknowledgements
  /// took as little as the fastest of late. `now`: when it was heard.
  double arrival(std::uint32_t stamp, double now);

  /// Returns whether the lane needs more to stay busy.
  bool has_room(const LaneLoad& load) const { return load.end(0) < depth_; }

  /// Returns whether some lane may want a trial. Cheap enough to be asked for each chunk.
  bool may_want_trials(double now) const { return now >= next_trial_; }
  /// Returns whether the lane is slow, or not known, and nothing has measured it for a while.
  static bool wants_trial(const LaneLoad& load, double now);
  std::size_t trial_bytes() const { return trial_bytes_; }
  void trial_posted(LaneLoad& load, double now) const;
  void trial_done(LaneLoad& load, double arrived, double now);
  /// Trials were posted where they may be: sets when to ask again.
  void trials_asked(double now);

 private:
  void measure(LaneLoad& lane, double now);
  void count(LaneLoad& lane, double seconds) const;
  double without_delay(double elapsed, double least);
  void weigh();

  std::size_t chunk_limit_;
  std::size_t trial_bytes_;
  std::vector<LaneLoad*> lanes_;  // those that are up, by index
  double depth_;                  // bytes of the fastest lane that a lane may have outstanding
  double fastest_ = 0;            // bytes per second; 0: not known
  double delay_ = -1;             // seconds that a chunk is on its way but for its bytes; negative: not known
  bool has_stamp_ = false;
  std::uint32_t first_stamp_ = 0;  // the first difference of the clocks; the others count from there
  double ahead_ = 0;               // seconds that the receiver's clock is ahead, by the fastest acknowledgement of late
  double ahead_at_ = 0;
  double next_trial_ = 0;
};

}  // namespace tutti
