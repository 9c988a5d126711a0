// Evidence of where chunks on a lane lose time: looks at how far their bytes have come (path_view.hpp), compared with
// what the bytes that were completed usually take.
//
// Bytes that are still on the path were late there, as far as the bytes that arrived since the last look do not
// explain the time; the rest was lost after they arrived. While nothing at all arrives, the path cannot be told from a
// receiver's kernel that holds acknowledgements back: that time waits as silent() until something arrives.
//
// Pure: times (seconds), the cost of a byte and the lane's lead (the usual time there and back) are passed in.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "monitor/lane_sample.hpp"
#include "monitor/path_view.hpp"

namespace tutti::monitor {

class BlameEvidence {
 public:
  /// The lane was idle and gets work now.
  void begin(double now, std::uint64_t handed_over, double lead);
  /// A chunk was posted; the lane had `handed_over` bytes before it.
  void post(double now, std::uint64_t handed_over) { postings_[posted_++ % kPostings] = {now, handed_over}; }
  void complete(double bytes) {
    completed_bytes_ += bytes;
    ++completions_;
  }

  struct Look {
    double now = 0;
    bool completing = false;  // an acknowledgement was just read
    double cost = 0;          // usual seconds per byte
    double lead = 0;
  };
  /// Finds where the time since the last look was lost.
  void look(const PathView& view, const Look& look);

  double looked_at() const { return looked_at_; }
  /// Returns how many chunks were completed since the last look.
  std::uint64_t completions() const { return completions_; }
  /// Returns the seconds that bytes seem to be on the path since any arrived.
  double silent() const { return silent_; }
  /// Returns what was found since take(), with silence counted as the path's.
  LostTime found() const { return {found_.in_path + silent_, found_.at_receiver, found_.at_sender}; }
  LostTime take() { return std::exchange(found_, {}); }

 private:
  static constexpr std::uint64_t kPostings = 64;
  struct Posting {
    double now = 0;
    std::uint64_t handed_over = 0;
  };

  double age_on_path(const PathView& view, double now) const;
  void settle_silence(bool heard, std::uint64_t resent, double in_path);

  std::array<Posting, kPostings> postings_{};  // the last ones
  std::uint64_t posted_ = 0;
  LostTime found_;
  double looked_at_ = 0;
  std::uint64_t completions_ = 0;  // since the last look
  double completed_bytes_ = 0;     // since the last look, or since the lane was idle
  std::uint64_t delivered_ = 0;
  double receiver_full_ = -1;  // negative: not known yet
  double lead_left_ = 0;       // seconds of the lead that bytes on the path may still take
  double silent_ = 0;
  std::uint64_t resent_ = 0;  // packets sent again when the silence began
};

}  // namespace tutti::monitor
