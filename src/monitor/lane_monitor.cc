#include "monitor/lane_monitor.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "monitor/step_fit.hpp"

namespace tutti::monitor {
namespace {

constexpr std::uint64_t kLeastJudged = 8;  // completions: fewer are noise
constexpr double kDropped = 0.7;           // of the usual rate
constexpr double kRecovered = 0.85;        // likewise
constexpr double kDeviations = 4;          // beyond the usual cost that a drop must be
constexpr double kOverdue = 1.25;          // of what a chunk usually takes
constexpr double kStalled = 8;             // likewise
constexpr double kLookGap = 4;             // likewise: between looks
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
}

LaneMonitor::LaneMonitor(const LaneMonitorOptions& options, const Map& map, LaneRecord* record, Tell tell)
    : options_(options),
      map_(map),
      record_(record != nullptr ? record : &unseen_),
      tell_(std::move(tell)),
      kept_(std::make_unique<std::array<Sample, kKept>>()),
      samples_(*kept_),
      judged_length_(std::max(static_cast<std::uint64_t>(options.window), kLeastJudged)) {}

void LaneMonitor::post(const Posting& posting) {
  record_->posted_chunks.add(1);
  record_->posted_bytes.add(posting.bytes);
  typical_bytes_ = posting.bytes;
  if (outstanding_++ == 0) {
    const double idle_from = std::max(last_done_, 0.0);
    const double refused = posting.refused_since != 0 ? std::max(posting.refused_since, idle_from) : posting.now;
    if (last_done_ != 0) {
      idle_late_ = posting.now - refused;
      idle_starved_ = posting.operation == operation_ ? refused - idle_from : 0;
    }
    busy_since_ = posting.now;
    looked_at_ = posting.now;
    delivered_ = posting.handed_over;
  }
  operation_ = posting.operation;
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
  if (outstanding_ == 0 || !usual_.is_known()) return kNever;
  const double gap = looked_at_ + std::max(kLookGap * expected(), kLeastLookGap);
  if (count_ - looked_count_ >= kLookEvery) return gap;
  return std::max(gap, std::max(last_done_, busy_since_) + lead_.seconds() + kOverdue * expected());
}

// Of the time since the last look, that which the bytes that came over usually take is as it should be. The rest was
// lost where the next byte is.
void LaneMonitor::look(const PathView& view, double now, bool completing) {
  if (outstanding_ == 0) return;
  const double usually =
      static_cast<double>(view.delivered - std::min(view.delivered, delivered_)) * usual_.cost().busy;
  double lost = now - looked_at_ - usually;
  const double full = receiver_full_ < 0 ? 0 : view.receiver_full - receiver_full_;
  looked_at_ = now;
  looked_count_ = count_;
  delivered_ = std::max(view.delivered, delivered_);
  receiver_full_ = view.receiver_full;
  const double here = completing ? std::clamp(view.unread, 0.0, std::max(lost, 0.0)) : 0;
  evidence_.here += here;
  lost -= here;
  const double at_receiver = view.in_path == 0 ? lost : std::clamp(full, 0.0, std::max(lost, 0.0));
  (view.in_path == 0 && view.unsent != 0 ? evidence_.here : evidence_.at_receiver) += at_receiver;
  evidence_.in_path += lost - at_receiver;

  const double since = std::max(last_done_, busy_since_);
  if (told_ || completing || now - since < std::max(options_.stall, kStalled * expected())) return;
  told_ = true;
  record_->stalls.add(1);
  Sample all = evidence_;
  all.busy = now - since;
  const Shares shares = shares_of(all);
  set_condition(Condition::stalled, shares.cause());
  tell(EventKind::lane_stalled, shares, now, since,
       {usual(), static_cast<double>(record_->posted_bytes.get() - record_->done_bytes.get()), now - since});
}

LaneMonitor::Sample LaneMonitor::sample_of(const Completion& done) {
  const double from = std::max(done.posted, last_done_);
  const double busy = std::max(done.now - from, 0.0);
  Sample found = std::exchange(evidence_, {});
  found.late = std::exchange(idle_late_, 0);
  found.starved = std::exchange(idle_starved_, 0);
  found.begin = from - found.late - found.starved;
  found.end = done.now;
  found.bytes = std::max(done.bytes, 1U);
  const double usually = found.bytes * usual_.cost().busy;
  const bool was_idle = done.posted >= last_done_;
  if (was_idle && usual_.is_known() && condition_ == Condition::normal) lead_.add(std::max(busy - usually, 0.0));
  if (was_idle && !lead_.is_known())
    found.busy = usual_.is_known() ? std::min(busy, usually) : busy;
  else
    found.busy = std::max(busy - std::clamp(lead_.seconds() - (from - done.posted), 0.0, lead_.seconds()), 0.0);
  return found;
}

void LaneMonitor::complete(const Completion& done) {
  if (outstanding_ != 0) --outstanding_;
  const Sample found = sample_of(done);
  last_done_ = std::max(last_done_, done.now);
  keep(found);
  write(done, found);
  judge(done.now);
}

void LaneMonitor::keep(const Sample& found) {
  const auto window = static_cast<std::uint64_t>(options_.window);
  if (count_ >= window) shown_.add(sample(count_ - window), -1);
  if (count_ >= judged_length_) judged_.add(sample(count_ - judged_length_), -1);
  sample(count_++) = found;
  shown_.add(found, 1);
  judged_.add(found, 1);
  if (condition_ != Condition::normal) dropped_.add(found, 1);
}

void LaneMonitor::write(const Completion& done, const Sample& found) {
  const std::uint64_t late = stamp(found.late + std::clamp(found.at_receiver, 0.0, found.busy));
  const std::uint64_t starved = stamp(found.starved);
  record_->done_chunks.add(1);
  record_->done_bytes.add(done.bytes);
  record_->busy.add(stamp(done.now - std::min(done.now, found.begin + found.late + found.starved)));
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
  chunk.operation.set(done.operation);
  chunk.receiver_late.set(static_cast<std::uint32_t>(std::min<std::uint64_t>(late, ~std::uint32_t{0})));
  chunk.starved.set(static_cast<std::uint32_t>(std::min<std::uint64_t>(starved, ~std::uint32_t{0})));
  chunk.rate.set(rate());
  chunk.index.set(number + 1);
  record_->chunk_count.set(number + 1);
}

void LaneMonitor::judge(double now) {
  if (count_ < judged_length_) return;
  if (!usual_.is_known()) return learn();
  if (condition_ == Condition::normal) {
    if (is_slow()) return drop(now);
    return learn();
  }
  if (condition_ == Condition::stalled) drop(now);
  const double usual_seconds = judged_.bytes * usual_.cost().total();
  if (judged_.seconds() * kRecovered <= usual_seconds) return end_drop(now, false);
  if (now - began_at_ > options_.new_usual) end_drop(now, true);
}

// Windows that do not overlap; so each chunk counts once.
void LaneMonitor::learn() {
  if (count_ - learned_ < judged_length_) return;
  learned_ = count_;
  usual_.add({judged_.busy / judged_.bytes, judged_.late / judged_.bytes, judged_.starved / judged_.bytes});
  record_->usual.set(usual());
}

// One chunk that took long is a hiccup, unless it took so long that it is a stall: without the worst, the window must
// still be slow. Chunks acknowledged together count as one.
bool LaneMonitor::is_slow() {
  const double usually = judged_.bytes * usual_.cost().total();
  const double excess = judged_.seconds() - usually;
  if (judged_.seconds() * kDropped <= usually || excess <= kDeviations * usual_.deviation() * judged_.bytes)
    return false;
  Sample worst;
  Sample group;
  for (std::uint64_t i = count_ - judged_length_; i < count_; ++i) {
    const Sample& each = sample(i);
    if (each.end != group.end) group = {};
    group.add(each, 1);
    group.end = each.end;
    if (group.seconds() > worst.seconds()) worst = group;
  }
  if (worst.seconds() >= std::max(options_.stall, kStalled * expected())) return true;
  const double rest = judged_.bytes - worst.bytes;
  return rest > 0 && (judged_.seconds() - worst.seconds()) * kRecovered > rest * usual_.cost().total();
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

// Chunks that took longer did so where looks found them; on the path, where nobody looked.
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
