#include "monitor/lane_monitor.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "monitor/step_fit.hpp"

namespace tutti::monitor {
namespace {

constexpr int kLeastJudged = 8;            // completions: fewer are noise
constexpr std::uint64_t kLeastTimes = 3;   // at which they came
constexpr double kDropped = 0.7;           // of the usual rate
constexpr double kStillDropped = 0.75;     // likewise, without the worst
constexpr double kRecovered = 0.85;        // likewise
constexpr std::uint64_t kFastWindows = 2;  // completions after one that is fast, until a drop is over
constexpr double kDeviations = 4;          // beyond the usual cost that a drop must be
constexpr double kOverdue = 1.25;          // of what a chunk usually takes
constexpr double kStalled = 8;             // likewise
constexpr double kLookGap = 4;             // likewise: between looks
constexpr double kSilence = 0.004;         // seconds
constexpr std::uint64_t kProbes = 1;       // packets that TCP sends once more to hear anything at all
constexpr double kLeastLookGap = 20e-6;    // seconds
constexpr std::uint64_t kLookEvery = 64;   // completions
constexpr std::uint64_t kFitted = 128;     // samples before a change that the fit is given
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Cause Shares::cause() const {
  if (sender > receiver && sender > path) return Cause::sender_starved;
  return receiver > path ? Cause::receiver_late : Cause::path_congested;
}

void LaneMonitor::Sample::add(const Sample& other, double sign) {
  bytes += sign * other.bytes;
  busy += sign * other.busy;
  late += sign * other.late;
  starved += sign * other.starved;
  in_path += sign * other.in_path;
  at_receiver += sign * other.at_receiver;
  here += sign * other.here;
  chunks += sign * other.chunks;
}

LaneMonitor::LaneMonitor(const LaneMonitorOptions& options, const Map& map, LaneRecord* record, Tell tell)
    : options_(options),
      map_(map),
      record_(record != nullptr ? record : &unseen_),
      tell_(std::move(tell)),
      samples_(std::make_unique<std::array<Sample, kKept>>()),
      judged_chunks_(std::max(options.window, kLeastJudged)) {
  options_.window = std::clamp(options_.window, 1, static_cast<int>(kLongest));
}

void LaneMonitor::post(const Posting& posting) {
  record_->posted_chunks.add(1);
  record_->posted_bytes.add(posting.bytes);
  typical_bytes_ = posting.bytes;
  postings_[posted_++ % kPostings] = {posting.now, posting.handed_over};
  if (outstanding_++ != 0) return;
  busy_since_ = posting.now;
  looked_at_ = posting.now;
  completed_bytes_ = 0;
  silent_ = 0;
  way_left_ = lead();
  delivered_ = posting.handed_over;
}

void LaneMonitor::count_quick(std::uint32_t bytes) {
  record_->quick_chunks.add(1);
  record_->quick_bytes.add(bytes);
}

void LaneMonitor::forget() {
  if (outstanding_ == 0) return;
  --outstanding_;
  evidence_ = {};
  told_ = false;
}

double LaneMonitor::look_due() const {
  if (silent_ != 0 && open_.chunks != 0) return open_.end;  // something was heard: what of?
  if (outstanding_ == 0 || !usual_.is_known()) return kNever;
  const double gap = looked_at_ + std::max(kLookGap * expected(), kLeastLookGap);
  if (completions_ - looked_count_ >= kLookEvery) return gap;
  if (is_busier()) return looked_at_ + expected();
  return std::max(gap, std::max(last_done_, busy_since_) + lead() + kOverdue * expected());
}

// Chunks take longer than they should: someone will have to say why.
bool LaneMonitor::is_busier() const {
  return (judged_.busy + open_.busy) * kRecovered > (judged_.bytes + open_.bytes) * usual_.cost().busy;
}

// What was lost since the last look is the time beyond that which the completions in it usually take. Bytes that still
// are on the path were late there, by what the bytes that came over do not explain; the rest was lost after they came.
void LaneMonitor::look(const PathView& view, double now, bool completing) {
  if (outstanding_ == 0 && silent_ == 0) return;
  Sample& found = open_.chunks != 0 ? open_ : evidence_;
  const double seconds = now - std::exchange(looked_at_, now);
  const double cost = usual_.cost().busy;
  const double lost = seconds - std::exchange(completed_bytes_, 0) * cost;
  const double came = static_cast<double>(view.delivered - std::min(view.delivered, delivered_));
  const double full = receiver_full_ < 0 ? 0 : view.receiver_full - receiver_full_;
  looked_count_ = completions_;
  delivered_ = std::max(view.delivered, delivered_);
  receiver_full_ = view.receiver_full;
  // Less than nothing, where more came than its time: bytes are counted when they are there, not as they come.
  const double late = seconds - came * cost - std::max(full, 0.0);
  // The first byte on a path that was empty takes the time of the way.
  const double way = view.in_path == 0 ? 0 : std::clamp(late, 0.0, way_left_);
  way_left_ = view.in_path == 0 ? lead() : way_left_ - way;
  const double in_path = std::min(late - way, on_path(view, now));
  const double here = view.is_held ? lost
                      : completing ? std::clamp(view.unread, 0.0, std::max(lost - std::max(in_path, 0.0), 0.0))
                                   : 0;
  found.here += here;
  found.at_receiver += lost - way - in_path - here;
  settle_silence(found, came > 0 || view.in_path == 0, view.lost, in_path);
  if (!completing) notice_stall(now);
}

// Where nothing at all comes over, and then all of it, without a packet having been lost, it was there: a kernel whose
// process does not read holds acknowledgements back for up to 40 ms.
void LaneMonitor::settle_silence(Sample& found, bool heard, std::uint64_t lost, double in_path) {
  if (!heard && silent_ == 0) lost_ = lost;
  silent_ += in_path;
  if (!heard) return;
  const bool was_there = silent_ >= kSilence && lost <= lost_ + kProbes;
  (was_there ? found.at_receiver : found.in_path) += silent_;
  silent_ = 0;
  lost_ = lost;
}

// For how long the oldest byte that is on the path has been; what left before those that are remembered: for ever.
double LaneMonitor::on_path(const PathView& view, double now) const {
  if (view.in_path == 0) return 0;
  const std::uint64_t first = posted_ - std::min(posted_, kPostings);
  std::uint64_t number = posted_;
  while (number != first && postings_[(number - 1) % kPostings].handed_over >= view.delivered) --number;
  if (number == first) return kNever;
  const bool had_come = number != posted_ && postings_[number % kPostings].handed_over == view.delivered;
  return now - postings_[(had_come ? number : number - 1) % kPostings].now;
}

void LaneMonitor::notice_stall(double now) {
  const double since = std::max(last_done_, busy_since_);
  if (told_ || now - since < std::max(options_.stall, kStalled * expected())) return;
  told_ = true;
  record_->stalls.add(1);
  Sample all = evidence_;
  all.busy = now - since;
  all.in_path += silent_;
  const Shares shares = shares_of(all);
  set_condition(Condition::stalled, shares.cause());
  tell(EventKind::lane_stalled, shares, now, since,
       {usual(), static_cast<double>(record_->posted_bytes.get() - record_->done_bytes.get()), now - since});
}

// The path is idle from when its last byte had left, which was heard of later by the lead, until the next was posted.
LaneMonitor::Sample LaneMonitor::sample_of(const Completion& done) {
  const double lead = this->lead();
  const bool is_first = last_done_ == 0;
  const double idle = is_first ? 0 : std::max(done.posted + lead - last_done_, 0.0);
  Sample found = std::exchange(evidence_, {});
  found.chunks = 1;
  found.bytes = std::max(done.bytes, 1U);
  found.busy = std::max(done.now - std::max(done.posted + lead, last_done_), 0.0);
  found.late = std::clamp(done.refused - refused_, 0.0, idle);
  found.starved = done.operation == operation_ ? idle - found.late : 0;
  found.end = done.now;
  found.begin = done.now - found.seconds();
  if (done.posted >= last_done_ && condition_ == Condition::normal)
    lead_.add(done.now - done.posted, found.bytes, usual_.cost().busy);
  operation_ = done.operation;
  refused_ = done.refused;
  return found;
}

void LaneMonitor::complete(const Completion& done) {
  if (outstanding_ != 0) --outstanding_;
  if (open_.chunks != 0 && open_.end != done.now) judge(done.now);
  const Sample found = sample_of(done);
  show(done);
  last_done_ = std::max(last_done_, done.now);
  write(done, found);
  if (open_.chunks == 0) open_.begin = found.begin;
  open_.end = found.end;
  open_.add(found, 1);
  completed_bytes_ += found.bytes;
}

void LaneMonitor::show(const Completion& done) {
  const auto window = static_cast<std::uint64_t>(options_.window);
  const Piece piece{static_cast<double>(done.bytes), std::max(done.now - std::max(done.posted, last_done_), 0.0)};
  Piece& oldest = pieces_[completions_++ % window];
  shown_.bytes += piece.bytes - oldest.bytes;
  shown_.seconds += piece.seconds - oldest.seconds;
  oldest = piece;
  record_->busy.add(stamp(piece.seconds));
}

void LaneMonitor::keep() {
  const Sample found = std::exchange(open_, {});
  sample(count_++) = found;
  judged_.add(found, 1);
  if (condition_ != Condition::normal) dropped_.add(found, 1);
  while (count_ - judged_from_ > kLeastTimes && judged_.chunks - sample(judged_from_).chunks >= judged_chunks_)
    judged_.add(sample(judged_from_++), -1);
}

void LaneMonitor::write(const Completion& done, const Sample& found) {
  const std::uint64_t late = stamp(found.late + std::clamp(found.at_receiver, 0.0, found.busy));
  const std::uint64_t starved = stamp(found.starved);
  record_->done_chunks.add(1);
  record_->done_bytes.add(done.bytes);
  record_->receiver_late.add(late);
  record_->starved.add(starved);
  record_->rate.set(rate());
  if (record_ == &unseen_) return;
  const std::uint64_t number = record_->chunk_count.get();
  ChunkRecord& chunk = map_.chunk(*record_, number);
  chunk.index.set(0);
  chunk.posted.set(stamp(done.posted));
  chunk.done.set(stamp(done.now));
  chunk.bytes.set(done.bytes);
  chunk.operation.set(static_cast<std::uint32_t>(done.operation));
  chunk.receiver_late.set(static_cast<std::uint32_t>(std::min<std::uint64_t>(late, ~std::uint32_t{0})));
  chunk.starved.set(static_cast<std::uint32_t>(std::min<std::uint64_t>(starved, ~std::uint32_t{0})));
  chunk.rate.set(record_->rate.get());
  chunk.index.set(number + 1);
  record_->chunk_count.set(number + 1);
}

void LaneMonitor::judge(double now) {
  if (open_.chunks == 0) return;
  keep();
  if (judged_.chunks < judged_chunks_ || count_ - judged_from_ < kLeastTimes) return;
  if (!usual_.is_known()) return learn();
  if (condition_ == Condition::normal) return is_slow() ? drop(now) : learn();
  if (condition_ == Condition::stalled) drop(now);
  const bool is_fast = judged_.seconds() * kRecovered <= judged_.bytes * usual_.cost().total();
  if (!is_fast) fast_from_ = count_;
  // What was held up comes at once when it comes: one fast window proves nothing.
  if (is_fast && judged_from_ >= fast_from_ + kFastWindows * static_cast<std::uint64_t>(judged_chunks_))
    return end_drop(now, false);
  if (now - began_at_ > options_.new_usual) end_drop(now, true);
}

// Windows that do not overlap; so each chunk counts once.
void LaneMonitor::learn() {
  if (judged_from_ < learned_) return;
  learned_ = count_;
  usual_.add({judged_.busy / judged_.bytes, judged_.late / judged_.bytes, judged_.starved / judged_.bytes});
  record_->usual.set(usual());
}

// One completion that took long is a hiccup, unless it took so long that it is a stall: without the worst, the window
// must still be slow.
bool LaneMonitor::is_slow() {
  const double usually = judged_.bytes * usual_.cost().total();
  const double excess = judged_.seconds() - usually;
  if (judged_.seconds() * kDropped <= usually || excess <= kDeviations * usual_.deviation() * judged_.bytes) {
    slow_in_a_row_ = 0;
    return false;
  }
  Sample worst;
  for (std::uint64_t i = judged_from_; i < count_; ++i)
    if (sample(i).seconds() > worst.seconds()) worst = sample(i);
  if (worst.seconds() >= std::max(options_.gap, kStalled * expected())) return true;
  const double rest = judged_.bytes - worst.bytes;
  const bool still = (judged_.seconds() - worst.seconds()) * kStillDropped > rest * usual_.cost().total();
  // What was held up comes at once when it comes: only the next completion tells.
  slow_in_a_row_ = still ? slow_in_a_row_ + 1 : 0;
  return slow_in_a_row_ > 1;
}

LaneMonitor::Sample LaneMonitor::sum(std::uint64_t first, std::uint64_t last) {
  Sample all;
  for (std::uint64_t i = first; i < last; ++i) all.add(sample(i), 1);
  return all;
}

std::uint64_t LaneMonitor::step_between(std::uint64_t first, std::uint64_t last, bool rises) {
  std::array<Piece, kKept> pieces;
  for (std::uint64_t i = first; i < last; ++i) pieces[i - first] = {sample(i).bytes, sample(i).seconds()};
  return first + fit_step({pieces.data(), last - first}, rises);
}

void LaneMonitor::drop(double now) {
  const bool is_told = std::exchange(told_, false);
  const std::uint64_t first = std::max(steady_from_, count_ - std::min(count_, kFitted));
  began_ = step_between(first, count_, true);
  began_at_ = sample(began_).begin;
  dropped_at_ = count_;
  fast_from_ = count_;
  dropped_ = sum(began_, count_);
  const Shares shares = shares_of(dropped_);
  record_->drops.add(1);
  set_condition(Condition::dropped, shares.cause());
  if (!is_told)
    tell(EventKind::lane_dropped, shares, now, began_at_,
         {usual(), dropped_.bytes / dropped_.seconds(), now - began_at_});
}

// With more of the drop known, its beginning is placed once more, where it is still kept.
void LaneMonitor::end_drop(double now, bool is_usual) {
  const bool kept = count_ - began_ + kFitted <= kKept;
  if (kept) {
    const std::uint64_t first = std::max(steady_from_, began_ - std::min(began_, kFitted));
    began_ = step_between(first, dropped_at_ + (count_ - dropped_at_) / 2, true);
    began_at_ = sample(began_).begin;
  }
  const std::uint64_t first = std::max(began_, count_ - std::min(count_, kFitted));
  const std::uint64_t step = step_between(first, count_, false);
  const std::uint64_t end = step == first ? count_ : step;
  Sample all = dropped_;
  if (kept) all = sum(began_, end);
  if (!kept) all.add(sum(end, count_), -1);
  const double ended_at = is_usual ? now : sample(end - 1).end;
  const Shares shares = shares_of(all);
  set_condition(Condition::normal, Cause::none);
  tell(EventKind::lane_recovered, shares, ended_at, began_at_,
       {usual(), all.bytes / all.seconds(), ended_at - began_at_});
  if (is_usual) usual_.forget();
  steady_from_ = end;
  learned_ = count_;
}

// Time that chunks took beyond the usual was lost where looks found it; on the path, where nobody looked.
Shares LaneMonitor::shares_of(const Sample& sum) const {
  const Cost& cost = usual_.cost();
  const double busy = std::max(sum.busy - cost.busy * sum.bytes, 0.0);
  const double at_receiver = std::max(sum.at_receiver, 0.0);
  const double here = std::max(sum.here, 0.0);
  const double seen = std::max(sum.in_path, 0.0) + at_receiver + here;
  Shares shares;
  shares.receiver = seen > 0 ? busy * at_receiver / seen : 0;
  shares.sender = seen > 0 ? busy * here / seen : 0;
  shares.path = busy - shares.receiver - shares.sender;
  shares.receiver += std::max(sum.late - cost.late * sum.bytes, 0.0);
  shares.sender += std::max(sum.starved - cost.starved * sum.bytes, 0.0);
  return shares;
}

void LaneMonitor::set_condition(Condition condition, Cause cause) {
  condition_ = condition;
  record_->condition.set(static_cast<std::uint32_t>(condition));
  record_->cause.set(static_cast<std::uint32_t>(cause));
}

void LaneMonitor::tell(EventKind kind, const Shares& shares, double at, double began,
                       const std::array<double, 3>& values) {
  if (!tell_) return;
  const double all = std::max(shares.sender + shares.receiver + shares.path, 1e-12);
  const std::string text = fmt::format("path {:.0f} %, receiver {:.0f} %, sender {:.0f} %", 100 * shares.path / all,
                                       100 * shares.receiver / all, 100 * shares.sender / all);
  Event event;
  event.kind = kind;
  event.cause = shares.cause();
  event.at = stamp(at);
  event.began = stamp(began);
  event.operation = static_cast<std::uint32_t>(operation_);
  std::copy(values.begin(), values.end(), event.values);
  event.text = text;
  tell_(event);
}

}  // namespace tutti::monitor
