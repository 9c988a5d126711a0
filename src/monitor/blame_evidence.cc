#include "monitor/blame_evidence.hpp"

#include <algorithm>
#include <limits>

namespace tutti::monitor {
namespace {

constexpr double kSilence = 0.004;    // seconds
constexpr std::uint64_t kProbes = 1;  // packets that TCP sends once more to hear anything at all

}  // namespace

void BlameEvidence::begin(double now, std::uint64_t handed_over, double lead) {
  looked_at_ = now;
  completed_bytes_ = 0;
  silent_ = 0;
  lead_left_ = lead;
  delivered_ = handed_over;
}

void BlameEvidence::look(const PathView& view, const Look& look) {
  const double seconds = look.now - std::exchange(looked_at_, look.now);
  const double lost = seconds - std::exchange(completed_bytes_, 0) * look.cost;
  const auto came = static_cast<double>(view.delivered - std::min(view.delivered, delivered_));
  const double full = receiver_full_ < 0 ? 0 : view.receiver_full - receiver_full_;
  completions_ = 0;
  delivered_ = std::max(view.delivered, delivered_);
  receiver_full_ = view.receiver_full;
  // Below 0 if more came than takes this time: bytes are counted when they are there, not as they come.
  const double late = seconds - came * look.cost - std::max(full, 0.0);
  // The first byte on a path that was empty takes the lead.
  const double lead = view.in_path == 0 ? 0 : std::clamp(late, 0.0, lead_left_);
  lead_left_ = view.in_path == 0 ? look.lead : lead_left_ - lead;
  const double in_path = std::min(late - lead, age_on_path(view, look.now));
  double at_sender = 0;
  if (view.is_held)
    at_sender = lost;
  else if (look.completing)
    at_sender = std::clamp(view.unread, 0.0, std::max(lost - std::max(in_path, 0.0), 0.0));
  found_.at_sender += at_sender;
  found_.at_receiver += lost - lead - in_path - at_sender;
  settle_silence(came > 0 || view.in_path == 0, view.lost, in_path);
}

// If nothing at all arrives and then everything at once, and no packet was lost, the bytes had arrived before: a kernel
// whose process does not read holds acknowledgements back for up to 40 ms.
void BlameEvidence::settle_silence(bool heard, std::uint64_t resent, double in_path) {
  if (!heard && silent_ == 0) resent_ = resent;
  silent_ += in_path;
  if (!heard) return;
  const bool had_arrived = silent_ >= kSilence && resent <= resent_ + kProbes;
  (had_arrived ? found_.at_receiver : found_.in_path) += silent_;
  silent_ = 0;
  resent_ = resent;
}

// Returns for how long the oldest byte on the path has been there; for ever if it left before the postings that are
// kept.
double BlameEvidence::age_on_path(const PathView& view, double now) const {
  if (view.in_path == 0) return 0;
  const std::uint64_t first = posted_ - std::min(posted_, kPostings);
  std::uint64_t number = posted_;
  while (number != first && postings_[(number - 1) % kPostings].handed_over >= view.delivered) --number;
  if (number == first) return std::numeric_limits<double>::infinity();
  const bool had_come = number != posted_ && postings_[number % kPostings].handed_over == view.delivered;
  return now - postings_[(had_come ? number : number - 1) % kPostings].now;
}

}  // namespace tutti::monitor
