// What one lane does, from what it is told of every chunk: throughput over a sliding window, what is usual, and when,
// by how much and why it is less.
//
// A chunk takes from its posting, or from the completion before it where that is later, to its completion: the time
// for which the lane had nothing else to do. So a lane without work is never slow; nor is one with several chunks
// under way, for which the time from first post to last completion (as ICCL has it) counts the pipeline's depth once
// more in every window. A chunk posted to an idle lane is heard of only after the way there and back; what that usually
// takes is learned, and counts as time in which the lane was idle.
//
// A drop is fewer bytes per second than usual *within operations*: the time of chunks, plus what the lane stood idle in
// the midst of an operation, because the receiver gave no credit (it is late) or nothing was offered (the sender is
// starved). Time between operations is nobody's. Where chunks themselves take longer, how far their bytes had come
// (path_view.hpp) says whether the path or the receiver held them up.
//
// Windows find a drop; its beginning, end and depth are then taken from a fit to the chunks themselves. O(1) per chunk,
// no allocation but at the first. One thread at a time: whoever holds the peer's mutex. Times are seconds on its clock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "monitor/layout.hpp"
#include "monitor/path_view.hpp"
#include "monitor/recorder.hpp"
#include "monitor/step_fit.hpp"
#include "monitor/usual_cost.hpp"

namespace tutti::monitor {

struct LaneMonitorOptions {
  int window = 8;                  // completions; at most 128
  double stamps_per_second = 1e9;  // of the times in records and events
  /// Seconds without a completion until a lane stalls, at least: a kernel may hold an acknowledgement back for 40 ms,
  /// and before it came there is no telling the path from the receiver.
  double stall = 0.06;
  double gap = 0.01;       // seconds between two completions that are a drop, at least
  double new_usual = 5.0;  // seconds after which a drop is what is usual
};

/// Who held up a drop: parts of the time beyond what is usual.
struct Shares {
  double sender = 0;
  double receiver = 0;
  double path = 0;

  Cause cause() const;
};

class LaneMonitor {
 public:
  using Tell = std::function<void(const Event&)>;

  /// The record, which may be null, lies in the map.
  LaneMonitor(const LaneMonitorOptions& options, const Map& map, LaneRecord* record, Tell tell);

  struct Posting {
    double now = 0;
    std::uint32_t bytes = 0;
    std::uint64_t handed_over = 0;  // bytes that the lane had before
  };
  void post(const Posting& posting);
  struct Completion {
    double posted = 0;
    double now = 0;
    std::uint32_t bytes = 0;
    std::uint64_t operation = 0;  // its number in the low half
    double refused = 0;           // seconds in which there was no credit for chunks to this peer, until it was posted
  };
  void complete(const Completion& done);
  /// All that an acknowledgement completed has been told: chunks that are done at the same time are judged together.
  void judge(double now);
  bool is_told() const { return open_.chunks != 0; }
  /// A chunk that is not timed.
  void count_quick(std::uint32_t bytes);
  /// Nobody waits any more for a chunk that was posted.
  void forget();

  /// When look() is due; never while nothing is outstanding.
  double look_due() const;
  /// `completing`: an acknowledgement was just read, and judge() follows. Else it notices stalls.
  void look(const PathView& view, double now, bool completing);

  /// Of the window, and as a rule; bytes per second, 0: not known.
  double rate() const { return shown_.seconds > 0 ? shown_.bytes / shown_.seconds : 0; }
  double usual() const { return usual_.is_known() ? 1 / usual_.cost().total() : 0; }
  Condition condition() const { return condition_; }
  std::uint64_t completions() const { return completions_; }
  double last_done() const { return last_done_; }

 private:
  static constexpr std::uint64_t kKept = 512;     // samples
  static constexpr std::uint64_t kLongest = 128;  // window
  static constexpr std::uint64_t kPostings = 64;

  /// Chunks that were done at the same time, or a sum over several such.
  struct Sample {
    double begin = 0;  // with the idle time before it that counts
    double end = 0;
    double bytes = 0;
    double busy = 0;
    double late = 0;  // idle for want of credit
    double starved = 0;
    double in_path = 0;      // of busy, beyond the usual: by evidence
    double at_receiver = 0;  // likewise
    double here = 0;         // likewise: not read, or not sent, by this process
    double chunks = 0;

    double seconds() const { return busy + late + starved; }
    void add(const Sample& other, double sign);
  };

  Sample& sample(std::uint64_t number) { return (*samples_)[number % kKept]; }
  double expected() const { return typical_bytes_ * usual_.cost().busy; }
  double lead() const { return lead_.seconds(usual_.cost().busy); }
  void settle_silence(Sample& found, bool heard, std::uint64_t lost, double in_path);
  void notice_stall(double now);
  Sample sample_of(const Completion& done);
  void show(const Completion& done);
  void write(const Completion& done, const Sample& sample);
  void keep();
  double on_path(const PathView& view, double now) const;
  bool is_busier() const;
  bool is_slow();
  void learn();
  void drop(double now);
  void end_drop(double now, bool is_usual);
  Sample sum(std::uint64_t first, std::uint64_t last);
  std::uint64_t step_between(std::uint64_t first, std::uint64_t last, bool rises);
  Shares shares_of(const Sample& sum) const;
  void set_condition(Condition condition, Cause cause);
  std::uint64_t stamp(double seconds) const { return static_cast<std::uint64_t>(seconds * options_.stamps_per_second); }
  void tell(EventKind kind, const Shares& shares, double at, double began, const std::array<double, 3>& values);

  LaneMonitorOptions options_;
  Map map_;
  LaneRecord* record_;
  LaneRecord unseen_;  // instead of a record
  Tell tell_;

  // What is outstanding.
  std::uint64_t outstanding_ = 0;
  double busy_since_ = 0;
  double last_done_ = 0;
  std::uint64_t operation_ = ~std::uint64_t{0};  // of the last completion
  double refused_ = 0;                           // likewise
  double typical_bytes_ = 0;
  struct Posted {
    double now = 0;
    std::uint64_t handed_over = 0;
  };
  std::array<Posted, kPostings> postings_{};  // the last ones
  std::uint64_t posted_ = 0;

  // Evidence since the last completion, and what it was taken from.
  Sample evidence_;
  double looked_at_ = 0;
  std::uint64_t looked_count_ = 0;
  std::uint64_t delivered_ = 0;
  double completed_bytes_ = 0;
  double silent_ = 0;  // seconds on the path, it seems, since any byte came over
  std::uint64_t lost_ = 0;
  double way_left_ = 0;  // seconds that bytes on the path may still take for the way itself
  double receiver_full_ = -1;

  std::unique_ptr<std::array<Sample, kKept>> samples_;
  std::uint64_t count_ = 0;
  Sample open_;                    // what was done last, until judge()
  std::uint64_t judged_from_ = 0;  // first sample of the window of the detectors
  Sample judged_;                  // its sum
  double judged_chunks_;           // it has at least

  std::array<Piece, kLongest> pieces_{};  // chunks of the window
  std::uint64_t completions_ = 0;
  Piece shown_;                    // their sum
  std::uint64_t learned_ = 0;      // count when a window was last learned from
  std::uint64_t steady_from_ = 0;  // samples from here on are not of a drop that is over

  UsualCost usual_;
  UsualLead lead_;

  Condition condition_ = Condition::normal;
  int slow_in_a_row_ = 0;         // windows
  std::uint64_t dropped_at_ = 0;  // count when the drop was seen
  std::uint64_t fast_from_ = 0;   // samples since then are of windows that are not slow
  std::uint64_t began_ = 0;       // first sample of it
  double began_at_ = 0;
  bool told_ = false;  // of the stall that is under way
  Sample dropped_;     // sum since began_
};

}  // namespace tutti::monitor
