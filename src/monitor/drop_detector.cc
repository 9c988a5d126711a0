#include "monitor/drop_detector.hpp"

#include <algorithm>

#include "monitor/step_fit.hpp"

namespace tutti::monitor {
namespace {

constexpr int kLeastJudged = 8;            // completions: fewer are noise
constexpr double kDropped = 0.7;           // of the usual rate
constexpr double kStillDropped = 0.75;     // likewise, without the worst
constexpr double kRecovered = 0.85;        // likewise
constexpr std::uint64_t kFastWindows = 2;  // completions after one that is fast, until a drop is over
constexpr double kDeviations = 4;          // beyond the usual cost that a drop must be
constexpr std::uint64_t kFitted = 128;     // samples before a change that the fit is given

std::uint64_t before(std::uint64_t number) { return number - std::min(number, kFitted); }

}  // namespace

DropDetector::DropDetector(int window, double new_usual)
    : new_usual_(new_usual),
      samples_(std::make_unique<std::array<LaneSample, kKept>>()),
      judged_chunks_(std::max(window, kLeastJudged)) {}

void DropDetector::add(const LaneSample& added) {
  (*samples_)[count_++ % kKept] = added;
  judged_.add(added);
  if (in_drop_) dropped_.add(added);
  while (count_ - judged_from_ > kLeastTimes && judged_.chunks - sample(judged_from_).chunks >= judged_chunks_)
    judged_.add(sample(judged_from_++), -1);
}

bool DropDetector::is_busier_with(const LaneSample& next) const {
  return (judged_.busy + next.busy) * kRecovered > (judged_.bytes + next.bytes) * usual_.cost().busy;
}

// Windows do not overlap, so each chunk counts once.
bool DropDetector::learn() {
  if (judged_from_ < learned_) return false;
  learned_ = count_;
  usual_.add({judged_.busy / judged_.bytes, judged_.late / judged_.bytes, judged_.starved / judged_.bytes});
  return true;
}

// One completion that took long is a hiccup, unless it took so long that it is a stall: without the worst, the window
// must still be slow.
bool DropDetector::is_slow(double gap) {
  const double usually = judged_.bytes * usual_.cost().total();
  const double excess = judged_.seconds() - usually;
  if (judged_.seconds() * kDropped <= usually || excess <= kDeviations * usual_.deviation() * judged_.bytes) {
    slow_in_a_row_ = 0;
    return false;
  }
  LaneSample worst;
  for (std::uint64_t i = judged_from_; i < count_; ++i)
    if (sample(i).seconds() > worst.seconds()) worst = sample(i);
  if (worst.seconds() >= gap) return true;
  const double rest = judged_.bytes - worst.bytes;
  const bool still = (judged_.seconds() - worst.seconds()) * kStillDropped > rest * usual_.cost().total();
  // What was held up comes all at once: only the next completion shows whether the lane is slow.
  slow_in_a_row_ = still ? slow_in_a_row_ + 1 : 0;
  return slow_in_a_row_ > 1;
}

std::optional<Drop> DropDetector::find_drop(double now, double gap, bool is_stalled) {
  if (!usual_.is_known() || (!is_stalled && !is_slow(gap))) return std::nullopt;
  place_beginning(before(count_), count_);
  found_at_ = count_;
  fast_from_ = count_;
  dropped_ = sum(began_, count_);
  in_drop_ = true;
  return drop_of(dropped_, now);
}

std::optional<Drop> DropDetector::find_end(double now) {
  const bool is_fast = judged_.seconds() * kRecovered <= judged_.bytes * usual_.cost().total();
  if (!is_fast) fast_from_ = count_;
  // What was held up comes all at once: one fast window proves nothing.
  if (is_fast && judged_from_ >= fast_from_ + kFastWindows * static_cast<std::uint64_t>(judged_chunks_))
    return end_drop(now, false);
  if (now - began_at_ > new_usual_) return end_drop(now, true);
  return std::nullopt;
}

// With more of the drop known, its beginning is placed once more, if it is still kept.
Drop DropDetector::end_drop(double now, bool is_usual) {
  const bool kept = count_ - began_ + kFitted <= kKept;
  if (kept) place_beginning(before(began_), found_at_ + (count_ - found_at_) / 2);
  const std::uint64_t first = std::max(began_, before(count_));
  const std::uint64_t step = step_between(first, count_, false);
  const std::uint64_t end = step == first ? count_ : step;
  LaneSample all = kept ? sum(began_, end) : dropped_;
  if (!kept) all.add(sum(end, count_), -1);
  const Drop over = drop_of(all, is_usual ? now : sample(end - 1).end);
  if (is_usual) usual_.forget();
  in_drop_ = false;
  steady_from_ = end;
  learned_ = count_;
  return over;
}

void DropDetector::place_beginning(std::uint64_t first, std::uint64_t last) {
  began_ = step_between(std::max(steady_from_, first), last, true);
  began_at_ = sample(began_).begin;
}

LaneSample DropDetector::sum(std::uint64_t first, std::uint64_t last) const {
  LaneSample all;
  for (std::uint64_t i = first; i < last; ++i) all.add(sample(i));
  return all;
}

std::uint64_t DropDetector::step_between(std::uint64_t first, std::uint64_t last, bool rises) const {
  std::array<Piece, kKept> pieces;
  for (std::uint64_t i = first; i < last; ++i) pieces[i - first] = {sample(i).bytes, sample(i).seconds()};
  return first + fit_step({pieces.data(), last - first}, rises);
}

Drop DropDetector::drop_of(const LaneSample& sum, double until) const {
  return {began_at_, until, usual_rate(), sum.bytes / sum.seconds(), shares_of(sum, usual_.cost())};
}

}  // namespace tutti::monitor
